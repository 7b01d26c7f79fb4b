"""Ray Train's TorchTrainer on a cluster: a run that goes on from its last checkpoint, and what its workers found.

python -m tests.ray.training ADDRESS NODES FOLDER WORKERS FAILURES [FAULT STEP]: waits for the nodes; the run survives
so many failures, and has a fault once: at that step the last rank is "killed", or all ranks "stay" in barriers until
one of them is lost. The outcome is printed as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

STEPS = 4
Outcome = dict[str, Any]
"""`failure`: the text of fit()'s error, "" without; `ranks`: what each worker of the last attempt wrote."""


def works(config: dict[str, Any]) -> None:
    """A worker: trains a wrapped model on its share of the rows, and reports a checkpoint each step."""
    import tempfile

    import torch
    import torch.distributed as dist
    from ray import train, util
    from ray.train.torch import prepare_model

    import ringtree.torch_backend
    from tests.torch_backend import elastic

    torch.set_num_threads(1)
    folder, rank, size = Path(config["folder"]), dist.get_rank(), dist.get_world_size()
    wrapped, begin = prepare_model(elastic.model()), 0
    if checkpoint := train.get_checkpoint():
        with checkpoint.as_directory() as saved:
            begin, state = torch.load(Path(saved) / "state.pt")
        wrapped.module.load_state_dict(state)
    for step in range(begin, STEPS):
        if step == config["step"] and not (folder / "fault").exists():
            dist.barrier()
            fails(config["fault"], folder / "fault", rank == size - 1)
        elastic.train(wrapped, step, rank, size)
        with tempfile.TemporaryDirectory() as saved:
            torch.save((step + 1, wrapped.module.state_dict()), Path(saved) / "state.pt")
            train.report({"step": step}, checkpoint=train.Checkpoint.from_directory(saved) if rank == 0 else None)
    found = {
        "backend": dist.get_backend(),
        "begin": begin,
        "hosts": list(ringtree.torch_backend.communicator().hosts),
        "received_bytes": int(ringtree.torch_backend.communicator().counters()[:, 0].sum()),
        "node": util.get_node_ip_address(),
        "parameters": {name: value.tolist() for name, value in wrapped.module.state_dict().items()},
    }
    (folder / f"{rank}.json").write_text(json.dumps(found))


def fails(fault: str, noted: Path, last: bool) -> None:
    """A rank's part in the fault; `noted` is there from then on. `last`: whether it is the last rank."""
    import torch.distributed as dist

    if last:
        noted.touch()
        if fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
    while True:
        dist.barrier()


def fitted(folder: Path, workers: int, failures: int = 0, fault: str = "", step: int = -1) -> Outcome:
    """The outcome of a run on the cluster that this process is connected to, with workers on all nodes."""
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer
    from ray.train.v2.api.exceptions import TrainingFailedError

    ranks = folder / "ranks"
    ranks.mkdir()
    trainer = TorchTrainer(
        works,
        train_loop_config={"folder": str(ranks), "fault": fault, "step": step},
        torch_config=TorchConfig(backend="ringtree", timeout_s=120),
        scaling_config=ScalingConfig(num_workers=workers, placement_strategy="SPREAD"),
        run_config=RunConfig(storage_path=str(folder / "store"), failure_config=FailureConfig(max_failures=failures)),
    )
    failure = ""
    try:
        trainer.fit()
    except TrainingFailedError as error:
        failure = str(error)
    return {"failure": failure, "ranks": [json.loads(file.read_text()) for file in sorted(ranks.glob("*.json"))]}


def as_one_process(ranks: list[Outcome]) -> None:
    """Asserts that every rank has the parameters to which one process comes."""
    import torch

    from tests.torch_backend import elastic

    alone = elastic.model()
    for step in range(STEPS):
        elastic.train(alone, step, 0, 1)
    for rank in ranks:
        for name, value in alone.state_dict().items():
            torch.testing.assert_close(torch.tensor(rank["parameters"][name]), value)


def main(address: str, nodes: str, folder: str, workers: str, failures: str, fault: str = "", step: str = "-1") -> None:
    import ray

    from tests.waiting import until

    ray.init(address=address, log_to_driver=False)
    until(lambda: sum(node["Alive"] for node in ray.nodes()) == int(nodes))
    print(json.dumps(fitted(Path(folder), int(workers), int(failures), fault, int(step))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
