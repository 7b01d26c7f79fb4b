"""The way into a call: 8 bytes, where next to nothing is left to send.

    python benchmarks/way_in.py                     as tables in Markdown; --turns, --rounds, --json FILE

From torch.distributed on one rank, beside two backends that do nothing: torch's own "fake", in C++, and a group written
in Python. From arrays on one rank and on two: each collective with `out=` and without, of numpy's float32 and of
ml_dtypes' bfloat16, and of tensors, beside its fast path (float32 with `out=`) and the bare allocation of its result.

All that is compared takes turns in one process, 300 calls at a time; a figure is the least of the rounds, and the
tables have medians over turns, each of which starts processes anew.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from timeit import Timer
from typing import Any

CALLS, ROUNDS, TURNS = 300, 60, 5
Act = Callable[[], object]
BACKENDS = {
    "fake": "torch's backend that does nothing",
    "bare": "a group in Python that does nothing",
    "ringtree": "ringtree",
    "gloo": "Gloo",
}
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")
KINDS = ("float32", "bfloat16", "tensor")


def least_us(acts: dict[str, Act], rounds: int) -> dict[str, float]:
    """Microseconds of each, in turns."""
    timers = {name: Timer(act) for name, act in acts.items()}
    for timer in timers.values():
        timer.timeit(CALLS)
    found = {name: [timer.timeit(CALLS)] for name, timer in timers.items()}
    for _ in range(rounds - 1):
        for name, timer in timers.items():
            found[name].append(timer.timeit(CALLS))
    return {name: min(times) / CALLS * 1e6 for name, times in found.items()}


def bare(dist: Any) -> None:
    """Registers a group that returns finished works."""

    class Work(dist.Work):  # type: ignore[misc]
        def wait(self, timeout: object = None) -> bool:
            return True

    class Group(dist.ProcessGroup):  # type: ignore[misc]
        def __init__(self, *given: object) -> None:
            super().__init__(0, 1)

        def allreduce(self, tensors: object, options: object = None) -> Work:
            return Work()

        def getBackendName(self) -> str:
            return "bare"

    dist.Backend.register_backend("bare", Group, devices=["cpu"])


def from_torch(rounds: int) -> dict[str, float]:
    """A call, and an asynchronous call and its wait, by backend."""
    import torch
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: F401  # registers "fake"

    bare(dist)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
    x = torch.ones(2)
    acts: dict[str, Act] = {}
    for backend, group in groups.items():
        acts[backend] = lambda group=group: dist.all_reduce(x, group=group)  # type: ignore[misc]
        acts[f"{backend}, async"] = lambda group=group: dist.all_reduce(x, group=group, async_op=True).wait()  # type: ignore[misc]
    found = least_us(acts, rounds)
    dist.destroy_process_group()
    return found


def from_arrays(comm: Any, rounds: int) -> dict[str, float]:
    """Each collective by kind of array, with `out=` and without; and the allocations of their results."""
    import numpy as np
    import torch
    from ml_dtypes import bfloat16

    n = comm.size
    arrays: dict[str, Any] = {
        "float32": np.ones(2 * n, np.float32),
        "bfloat16": np.ones(4 * n, bfloat16),
        "tensor": torch.ones(2 * n),
    }
    acts: dict[str, Act] = {}
    for collective in COLLECTIVES:
        for kind, x in arrays.items():
            call, out = getattr(comm, collective), getattr(comm, collective)(x)
            shape, same = tuple(out.shape), out.shape == x.shape
            call(x, out=out)
            acts[f"{collective}, {kind}, out="] = lambda call=call, x=x, out=out: call(x, out=out)  # type: ignore[misc]
            acts[f"{collective}, {kind}"] = lambda call=call, x=x: call(x)  # type: ignore[misc]
            if kind != "tensor":
                acts[f"{collective}, {kind}, bare"] = lambda shape=shape, x=x: np.empty(shape, x.dtype)  # type: ignore[misc]
            elif same:
                acts[f"{collective}, {kind}, bare"] = lambda x=x: torch.empty_like(x)  # type: ignore[misc]
            else:
                acts[f"{collective}, {kind}, bare"] = lambda shape=shape, x=x: x.new_empty(shape)  # type: ignore[misc]
    x = arrays["float32"]
    acts["in place"] = lambda: comm.all_reduce(x, out=x)
    acts["in place, async"] = lambda: comm.all_reduce(x, out=x, async_op=True).wait()
    x *= 0
    comm.barrier()
    return least_us(acts, rounds)


def measure(ranks: int, rounds: int) -> dict[str, float]:
    """One turn in this process: of torch's groups where `ranks` is 0."""
    if ranks == 0:
        return from_torch(rounds)
    import ringtree

    found: dict[str, float] = ringtree.spawn(from_arrays, ranks, rounds, pin=True)[0]
    return found


def tables(found: dict[int, list[dict[str, float]]]) -> str:
    """The turns' medians."""
    lines = [
        "| backend | all_reduce, us | of fake | async_op and wait, us | of fake |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for backend, words in BACKENDS.items():
        cells = []
        for how in ("", ", async"):
            us = median(turn[backend + how] for turn in found[0])
            cells += [f"{us:.2f}", f"{median(turn[backend + how] / turn['fake' + how] for turn in found[0]):.2f}"]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    for ranks in (1, 2):
        us = {name: median(turn[name] for turn in found[ranks]) for name in found[ranks][0]}
        place = f"Arrays on {ranks} rank{'s' * (ranks > 1)}, in us"
        lines += [
            "",
            f"{place}: in place {us['in place']:.2f}, asynchronous and its wait {us['in place, async']:.2f}.",
            "",
        ]
        lines += ["| call | fast path | kind | out= | of it | without | allocation | the rest, of it |"]
        lines += ["| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |"]
        for collective in COLLECTIVES:
            fast = us[f"{collective}, float32, out="]
            for kind in KINDS:
                given, own, alone = (us[f"{collective}, {kind}{how}"] for how in (", out=", "", ", bare"))
                cells = [f"{fast:.2f}", kind, f"{given:.2f}", f"{given / fast:.2f}"]
                cells += [f"{own:.2f}", f"{alone:.2f}", f"{(own - alone) / fast:.2f}"]
                lines.append(f"| {collective} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--ranks", type=int, choices=(0, 1, 2), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ranks is not None:
        print(json.dumps(measure(args.ranks, args.rounds)))
        return
    found: dict[int, list[dict[str, float]]] = {0: [], 1: [], 2: []}
    for _ in range(args.turns):
        for ranks, turns in found.items():
            command = [sys.executable, __file__, "--ranks", str(ranks), "--rounds", str(args.rounds)]
            done = subprocess.run(command, env=os.environ, stdout=subprocess.PIPE, check=True)
            turns.append(json.loads(done.stdout))
    print(tables(found))
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
