"""Generations by a tiny model of random weights: vLLM on one host, or on two hosts of a lab."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.runtime.hosts.lab import Lab

FOLDER = Path(__file__).parent
SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
}
"""Of all processes: small, and not bound to NUMA nodes, of which this machine may have one."""
PORT = 29_655
TIMEOUT_S = 240


def make_model(folder: Path) -> None:
    """8 layers of 512, whose logits are far apart."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=512,
        intermediate_size=1024,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=2048,
        max_position_embeddings=512,
        initializer_range=0.3,
    )
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


def environment(plugin: str) -> dict[str, str]:
    """`plugin`: "" for vLLM as it is."""
    return os.environ | SETTINGS | {"VLLM_PLUGINS": plugin}


def generate(model: Path, plugin: str, lab: Lab | None = None, **options: Any) -> tuple[dict[str, Any], str]:
    """The file of generate.py, and all that the first host's ranks have printed. `options`: LLM's, and `turns`; with a
    lab half of the ranks are on its second host. RuntimeError where vLLM fails."""
    result = model.parent / "generated.json"
    result.unlink(missing_ok=True)
    if lab is None:
        shown = _ended(_started(plugin, [], "generate.py", str(model), str(result), json.dumps(options)))
    else:
        over = {"nnodes": 2, "master_addr": lab.address(0), "master_port": PORT}
        words = [word for name, value in over.items() for word in ("--" + name.replace("_", "-"), str(value))]
        words += ["--tensor-parallel-size", str(options["tensor_parallel_size"]), "--enforce-eager", "--headless"]
        words += ["--model", str(model), "--skip-tokenizer-init", "--dtype", "bfloat16", "--node-rank", "1"]
        words += ["--max-model-len", "256", "--max-num-seqs", "8", "--seed", "0"]
        second = _started(plugin, _on(lab, 1), "headless.py", *words)
        options |= over | {"node_rank": 0, "enforce_eager": True}
        first = _started(plugin, _on(lab, 0), "generate.py", str(model), str(result), json.dumps(options))
        try:
            shown = _ended(first)
        finally:
            second.terminate()
            _ended(second, failing=True)
    return json.loads(result.read_text()), shown


def _on(lab: Lab, host: int) -> list[str]:
    return [*lab.command(host), "env", f"VLLM_HOST_IP={lab.address(host)}", "GLOO_SOCKET_IFNAME=eth0"]


def _started(plugin: str, within: list[str], program: str, *words: str) -> subprocess.Popen[str]:
    command = [*within, sys.executable, str(FOLDER / program), *words]
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    return subprocess.Popen(
        command, env=environment(plugin), stdout=pipe, stderr=both, text=True, start_new_session=True
    )


def _ended(process: subprocess.Popen[str], failing: bool = False) -> str:
    """What a process has printed. RuntimeError where it failed, or has not ended after TIMEOUT_S."""
    try:
        shown, _ = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        shown = f"{process.communicate()[0]}\nvLLM has not ended after {TIMEOUT_S} s"
    if process.returncode and not failing:
        raise RuntimeError(shown[-6000:])
    return shown
