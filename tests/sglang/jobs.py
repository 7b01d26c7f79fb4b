"""Generations by SGLang on one host, or on two hosts of a lab."""

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
    "PYTHONPATH": str(FOLDER / "absent"),
    "SGLANG_USE_CPU_ENGINE": "1",
}
PORT = 29_755
CORES = sorted(os.sched_getaffinity(0))


def environment(plugin: str, ranks: int) -> dict[str, str]:
    """`plugin`: "none" for SGLang as it is. Each rank has a core, the first again where they are too few."""
    bound = "|".join(str(CORES[rank % len(CORES)]) for rank in range(ranks))
    return os.environ | SETTINGS | {"SGLANG_PLUGINS": plugin, "SGLANG_CPU_OMP_THREADS_BIND": bound}


def generate(model: Path, plugin: str, lab: Lab | None = None, **options: Any) -> tuple[dict[str, Any], str]:
    """The file of generate.py, and all that the first host's ranks have printed. `options`: Engine's, and `turns`; with
    a lab half of the ranks are on its second host. RuntimeError where SGLang fails."""
    result = model.parent / "generated.json"
    result.unlink(missing_ok=True)
    own = environment(plugin, options.get("tp_size", 1) * options.get("pp_size", 1))

    def run(within: list[str], **more: Any) -> Any:
        words = str(model), str(result), json.dumps(options | more)
        return started(own, within, FOLDER / "generate.py", *words)

    if lab is None:
        shown = ended(run([]))
    else:
        over = {"nnodes": 2, "dist_init_addr": f"{lab.address(0)}:{PORT}"}
        second, first = (run(_on(lab, host), node_rank=host, **over) for host in (1, 0))
        shown = ended_first(first, second)
    return json.loads(result.read_text()), shown


def _on(lab: Lab, host: int) -> list[str]:
    return [*lab.command(host), "env", f"SGLANG_HOST_IP={lab.address(host)}", "GLOO_SOCKET_IFNAME=eth0"]
