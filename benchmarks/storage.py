"""Loads and saves of a safetensors file by all ranks, beside safetensors' own on each rank; in one run, by turns.

    python -m benchmarks.storage FOLDER --ranks 2,4 --json benchmarks/storage.json

FOLDER: of the disk to measure; a file of --megabytes is made there, and removed. "disk" is after its pages were dropped
from the page cache, "cached" with all of them in it. Times are of the slowest rank, from a barrier to when every page
of every tensor has been read once on every rank (safetensors and memory="mapped" defer reading until then), medians
over the rounds; a ratio is the median of the rounds' ratios. Saves end when the file lasts (fsync): safetensors' is
rank 0's alone. Before each call every rank takes as much memory and gives it back (see touch_memory). --trace
prints each round.
"""

from __future__ import annotations

import argparse
import mmap
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import date
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import ringtree
import ringtree.storage
from ringtree.bench.machine import describe
from ringtree.files.replacing import replace_with_json

PAGE = 4096
TENSORS = 32
Call = Callable[[ringtree.Communicator, Path], dict[str, Any]]


def theirs(comm: ringtree.Communicator, path: Path) -> dict[str, Any]:
    from safetensors.numpy import load_file

    return load_file(path)


def theirs_in_torch(comm: ringtree.Communicator, path: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(path)


def ours(comm: ringtree.Communicator, path: Path, **options: Any) -> dict[str, Any]:
    return ringtree.storage.load(path, comm, **options)


def loads() -> dict[str, Call]:
    """The contenders: safetensors' own first, by which the others are divided."""
    mapped = {"safetensors.torch": theirs_in_torch} if find_spec("torch") else {}
    return {
        "safetensors.numpy": theirs,
        **mapped,
        **{f"ringtree {memory}": partial(ours, memory=memory) for memory in ("mapped", "private", "symmetric")},
        "ringtree private, direct=False": partial(ours, memory="private", direct=False),
    }


def touched(tensors: dict[str, Any]) -> int:
    """A byte of every page of every tensor, added up."""
    arrays = (x if isinstance(x, np.ndarray) else x.numpy() for x in tensors.values())
    return sum(int(x.reshape(-1).view(np.uint8)[::PAGE].sum()) for x in arrays)


def forget(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def touch_memory(nbytes: int) -> None:
    """Takes that much memory and gives it back. A hypervisor that has taken back what was free for some seconds hands
    it out again here, and not in the load that comes next: that would measure how long ago it was free."""
    memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    np.frombuffer(memory, np.uint8)[::PAGE] = 1


def slowest_s(comm: ringtree.Communicator, began: float) -> float:
    return float(comm.all_reduce(np.array([time.perf_counter() - began]), "max")[0])


def measure_loads(comm: ringtree.Communicator, path: Path, cached: bool, rounds: int) -> dict[str, list[float]]:
    """The seconds of each contender by rounds. The memory of "symmetric" is its group's: each has one of its own."""
    found: dict[str, list[float]] = {name: [] for name in loads()}
    expected = touched(theirs(comm, path))
    for k in range(-1, rounds):  # the first warms up
        for name, load in loads().items():
            with closing(comm.group(list(range(comm.size)))) as group:
                touch_memory(path.stat().st_size * 5 // 4)
                if not cached and comm.rank == 0:
                    forget(path)
                group.barrier()
                began = time.perf_counter()
                tensors = load(group, path)
                total = touched(tensors)
                took_s = slowest_s(group, began)
                if total != expected:
                    raise ValueError(f"{name} read {total}; expected {expected}")
                del tensors
            if k >= 0:
                found[name].append(took_s)
    return found


def measure_saves(comm: ringtree.Communicator, path: Path, rounds: int) -> dict[str, list[float]]:
    from safetensors.numpy import save_file

    tensors = theirs(comm, path)
    target = path.with_name("saved")

    def by_rank_0() -> None:
        if comm.rank == 0:
            save_file(tensors, target)
            descriptor = os.open(target, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)

    calls = {"safetensors.numpy": by_rank_0, "ringtree": lambda: ringtree.storage.save(tensors, target, comm)}
    found: dict[str, list[float]] = {name: [] for name in calls}
    for k in range(-1, rounds):
        for name, call in calls.items():
            touch_memory(path.stat().st_size)
            if comm.rank == 0:
                target.unlink(missing_ok=True)
            comm.barrier()
            began = time.perf_counter()
            call()
            took_s = slowest_s(comm, began)
            if k >= 0:
                found[name].append(took_s)
    return found


def made(path: Path, megabytes: int) -> None:
    from safetensors.numpy import save_file

    draw = np.random.default_rng(0)
    count = (megabytes << 20) // TENSORS
    save_file({f"layers.{k}": draw.integers(0, 256, count, np.uint8) for k in range(TENSORS)}, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--trace", action="store_true")
    given = parser.parse_args()
    if not given.folder.is_dir():
        parser.error(f"{given.folder} is no folder; expected one on the disk to measure")
    rows = []
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        path = Path(folder) / "model.safetensors"
        made(path, given.megabytes)
        for ranks in map(int, given.ranks.split(",")):
            cases: dict[str, Callable[..., Any]] = {
                "load, cached": partial(measure_loads, path=path, cached=True, rounds=given.rounds),
                "load, disk": partial(measure_loads, path=path, cached=False, rounds=given.rounds),
                "save": partial(measure_saves, path=path, rounds=given.rounds),
            }
            for case, work in cases.items():
                found: dict[str, list[float]] = ringtree.spawn(work, ranks)[0]
                first = found["safetensors.numpy"]
                for name, each in found.items():
                    ratio = median(a / b for a, b in zip(each, first, strict=True))
                    rows.append(
                        {"case": case, "ranks": ranks, "contender": name, "seconds": each, "ratio": round(ratio, 4)}
                    )
                    line = f"| {case} | {ranks} | {name} | {median(each) * 1e3:.0f} | {ratio:.2f} |"
                    print(line, [round(s, 3) for s in each] if given.trace else "", flush=True)
    if given.json:
        record = {
            "machine": describe(),
            "date": f"{date.today():%-d %B %Y}",
            "nbytes": given.megabytes << 20,
            "rounds": given.rounds,
            "rows": rows,
        }
        replace_with_json(given.json, record)


if __name__ == "__main__":
    main()
