"""The programs of clients, on Gloo and in its place."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

PROGRAMS = Path(__file__).parent / "programs"
BIN = Path(sys.executable).parent
SETTINGS = {
    "ACCELERATE_USE_CPU": "1",
    "DS_ACCELERATOR": "cpu",
    "HF_HUB_OFFLINE": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMP_NUM_THREADS": "1",
    "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
    "PYTHONPATH": str(PROGRAMS),
    "TOKENIZERS_PARALLELISM": "false",
}
PATIENCE_S = 60
TORCHRUN = ("torchrun", "--standalone", "--nproc-per-node", "2")
_PROCESSES = ("--cpu", "--num_processes", "2", "--num_machines", "1")
ACCELERATE = ("accelerate", "launch", *_PROCESSES, "--mpirun_hostfile", "hosts")
"""On CPUs Accelerate's launcher starts several processes by mpirun alone."""
TUNE = ("tune", "run", "--nproc_per_node", "2", "torchtune_recipe", "--config", "torchtune_recipe.yaml")
"""This launcher takes a recipe of the user's as a module."""


class Client(NamedTuple):
    """A program: the client's name as the table has it, its packages, and the command that starts it."""

    name: str
    packages: tuple[str, ...]
    command: tuple[str, ...]
    timeout_s: float = 180.0  # DeepSpeed compiles an operator when it is first started

    @property
    def id(self) -> str:
        """Its name in a test's."""
        return "-".join(Path(word).stem for word in self.command if word.endswith(".py") or word.isalnum())


def torchrun(name: str, packages: str, *words: str) -> Client:
    """A client that torchrun starts."""
    return Client(name, tuple(packages.split()), (*TORCHRUN, *words))


CLIENTS = [
    torchrun("Accelerate: gather_for_metrics, save_state and load_state", "accelerate", "accelerate_training.py"),
    Client("Accelerate: accelerate launch", ("accelerate", "openmpi"), (*ACCELERATE, "accelerate_training.py")),
    torchrun("Hugging Face Trainer: DDP", "transformers", "hugging_face_trainer.py"),
    Client("Lightning: DDP", ("lightning",), ("python", "lightning_training.py", "ddp")),
    torchrun("DeepSpeed: ZeRO 1", "deepspeed", "deepspeed_zero.py", "1"),
    torchrun("DeepSpeed: ZeRO 2", "deepspeed", "deepspeed_zero.py", "2"),
    torchrun("DeepSpeed: ZeRO 3", "deepspeed", "deepspeed_zero.py", "3"),
    Client("torchtune: full_finetune_distributed, by FSDP2", ("torchtune", "torchao"), TUNE),
    torchrun("torch.distributed.checkpoint: async_save beside FSDP2", "torch", "asynchronous_checkpoint.py"),
    torchrun("TorchRec: DistributedModelParallel", "torchrec fbgemm-gpu-cpu", "torchrec_training.py"),
    torchrun("a recommender: tables by all_to_all, DDP on top", "torch", "recommender.py"),
    torchrun("torchrun's restarts after a killed rank", "torch", "--max-restarts", "2", "restarts.py")._replace(
        timeout_s=60.0  # Gloo may hang
    ),
]


def run(client: Client, replaces: str) -> dict[str, Any]:
    """The findings of a client's program. `replaces`: "" or "gloo". RuntimeError with the last of what it printed where
    it fails."""
    first, *rest = client.command
    ours = {path.name for path in PROGRAMS.iterdir()}
    words = [str(BIN / first), *(str(PROGRAMS / word) if word in ours else word for word in rest)]
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        env = os.environ | SETTINGS | {"CLIENT_RESULT": str(result), "RINGTREE_REPLACES": replaces, "TMPDIR": folder}
        pipe, both = subprocess.PIPE, subprocess.STDOUT
        started = subprocess.Popen(
            words, env=env, cwd=folder, stdout=pipe, stderr=both, text=True, start_new_session=True
        )
        try:
            shown, _ = started.communicate(timeout=client.timeout_s)
        except subprocess.TimeoutExpired:
            shown = f"{_ended(started)}\n{client.name} has not ended after {client.timeout_s:g} s"
        if started.returncode or not result.exists():
            raise RuntimeError(f"{shown[-5000:]}\n{client.name} ended with {started.returncode}")
        found: dict[str, Any] = json.loads(result.read_text())
        return found


def _ended(started: subprocess.Popen[str]) -> str:
    """All that a program has printed that is ended now. torchrun ends its ranks, which are in groups of their own,
    where it is asked to; where it is killed, they stay."""
    started.terminate()
    try:
        return started.communicate(timeout=PATIENCE_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        return started.communicate()[0]
