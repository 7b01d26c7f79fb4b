"""Generations by vLLM on one host, or on two hosts of a lab."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.runtime.hosts.lab import Lab
from tests.serving.processes import ended, ended_first, started

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


def environment(plugin: str) -> dict[str, str]:
    """`plugin`: "" for vLLM as it is."""
    return os.environ | SETTINGS | {"VLLM_PLUGINS": plugin}


def generate(model: Path, plugin: str, lab: Lab | None = None, **options: Any) -> tuple[dict[str, Any], str]:
    """The file of generate.py, and all that the first host's ranks have printed. `options`: LLM's, and `turns`; with a
    lab half of the ranks are on its second host. RuntimeError where vLLM fails."""
    result = model.parent / "generated.json"
    result.unlink(missing_ok=True)
    own = environment(plugin)

    def run(within: list[str], **more: Any) -> Any:
        words = str(model), str(result), json.dumps(options | more)
        return started(own, within, FOLDER / "generate.py", *words)

    if lab is None:
        shown = ended(run([]))
    else:
        over = {"nnodes": 2, "master_addr": lab.address(0), "master_port": PORT}
        words = [word for name, value in over.items() for word in ("--" + name.replace("_", "-"), str(value))]
        words += ["--tensor-parallel-size", str(options["tensor_parallel_size"]), "--enforce-eager", "--headless"]
        words += ["--model", str(model), "--skip-tokenizer-init", "--dtype", "bfloat16", "--node-rank", "1"]
        words += ["--max-model-len", "256", "--max-num-seqs", "8", "--seed", "0"]
        second = started(own, _on(lab, 1), FOLDER / "headless.py", *words)
        first = run(_on(lab, 0), **over, node_rank=0, enforce_eager=True)
        shown = ended_first(first, second)
    return json.loads(result.read_text()), shown


def _on(lab: Lab, host: int) -> list[str]:
    return [*lab.command(host), "env", f"VLLM_HOST_IP={lab.address(host)}", "GLOO_SOCKET_IFNAME=eth0"]
