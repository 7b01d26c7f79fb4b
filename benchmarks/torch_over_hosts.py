"""torch.distributed on ringtree beside Gloo over hosts that are namespaces of this machine, by turns (root).

    python -m benchmarks.torch_over_hosts                          2 hosts of 2 ranks and 3 of 1, no limit and 2 Gbit/s
    python -m benchmarks.torch_over_hosts --layouts 2,2 --rates 2gbit ddp fsdp2
    python -m benchmarks.torch_over_hosts --json FILE

The rows, turns and figures are those of torch_beside_gloo.py: of a step the communication is shown, its time less that
of the same step in a group whose calls return at once. Beside a step are the tokens a second of all ranks.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import torch_beside_gloo as beside
from tests.runtime.hosts.lab import Lab, enter_all

TOKENS_OF_A_RANK = 128
"""As `beside.stepping` has them."""
ROWS = [
    beside.Row("all_reduce 8 B", beside.all_reduce(8)),
    beside.Row("all_reduce 1 MiB", beside.all_reduce(1 << 20)),
    beside.Row("ddp step", beside.ddp, step=True),
    beside.Row("fsdp2 step", beside.fsdp2, step=True),
    beside.Row("fsdp2 step, in place", partial(beside.fsdp2, from_group=True), step=True),
]
HEAD = """| µs | hosts | link | Gloo | ringtree | ratio | step on Gloo | on ringtree | tokens/s on Gloo | on ringtree |
| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"""


def on_a_host(namespaces: list[str], *arguments: Any) -> None:
    """A rank, once it is on its host."""
    enter_all(namespaces)
    os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
    beside.ROWS = ROWS
    beside.rank_main(*arguments)


def run(layout: list[int], rate: str, names: list[str]) -> dict[str, dict[str, list[float]]]:
    """By row and backend, seconds of a call by the slowest rank, one a turn."""
    context = multiprocessing.get_context("spawn")
    results, ranks = context.SimpleQueue(), sum(layout)
    host_of = [host for host, here in enumerate(layout) for _ in range(here)]
    with tempfile.TemporaryDirectory() as folder, Lab(len(layout), rate) as lab:
        file = str(Path(folder) / "store")
        processes = [
            context.Process(target=on_a_host, args=(lab.namespaces(host_of[r]), r, ranks, file, names, results))
            for r in range(ranks)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit(f"hosts of {layout} ranks: one ended with an error")
    return dict(results.get() for _ in names)


def line(name: str, layout: list[int], rate: str, kept: dict[str, Any]) -> str:
    """A row of the table."""
    step = "silent_s" in kept
    of = "_communication_s" if step else "_s"
    cells = [f"{kept[backend + of] * 1e6:,.0f}" for backend in ("gloo", "ringtree")] + [f"{kept['ratio']:.2f}"]
    for unit in (lambda s: s * 1e6, lambda s: TOKENS_OF_A_RANK * sum(layout) / s):
        cells += [f"{unit(kept[b + '_s']):,.0f}" if step else "" for b in ("gloo", "ringtree")]
    hosts = " + ".join(map(str, layout))
    return f"| {name} | {hosts} | {rate or 'no limit'} | {' | '.join(cells)} |"


def about() -> dict[str, Any]:
    """The machine and its load, which is of all its processes."""
    import torch

    from ringtree.bench.machine import describe

    return {"machine": describe(), "torch": torch.__version__, "turns": beside.TURNS, "load": os.getloadavg()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="rows, by a part of their name (default all)")
    parser.add_argument("--layouts", default="2,2;1,1,1", help="ranks of each host (default 2,2;1,1,1)")
    parser.add_argument("--rates", default=",2gbit", help="of each host's link; nothing is no limit (default ,2gbit)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures, with machine and versions")
    args = parser.parse_args()
    names = [row.name for row in ROWS if not args.rows or any(part in row.name for part in args.rows)]
    print(HEAD)
    record = []
    for layout in [list(map(int, text.split(","))) for text in args.layouts.split(";")]:
        for rate in args.rates.split(","):
            found = run(layout, rate, names)
            for row in ROWS:
                if row.name in found:
                    kept = beside.figures(row, found[row.name])
                    print(line(row.name, layout, rate, kept), flush=True)
                    record.append({"name": row.name, "hosts": layout, "rate": rate, **kept})
            if args.json:  # what is measured so far
                args.json.write_text(json.dumps({**about(), "rows": record}, indent=1) + "\n")


if __name__ == "__main__":
    main()
