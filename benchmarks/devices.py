"""Times all_reduce of GPU memory, ranks that share a GPU, beside torch's symmetric memory, in turns:
python -m benchmarks.devices -n 2 --json FILE."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable
from ctypes import CDLL
from importlib.util import find_spec
from typing import Any

import numpy as np

from ringtree import spawn
from ringtree.runtime.communicator.communicator import Communicator

SIZES = (8, 1 << 12, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28, 1 << 30)
PEERS = ("one_shot_all_reduce", "two_shot_all_reduce_")
OWN = ("symmetric", "private")


def beside_torch(comm: Communicator, sizes: tuple[int, ...], rounds: int, peers: tuple[str, ...]) -> dict[str, Any]:
    """Medians of the time of a call in microseconds, by size in bytes and way; and the rate at which each rank copies
    while all do, in bytes a second, read and written."""
    import torch

    torch.cuda.set_device(0)
    group = _torch_group(comm) if peers else ""
    rows: dict[str, dict[str, Any]] = {}
    for nbytes in sizes:
        ways = _ways(comm, torch, nbytes, group, peers)
        repeats = max(3, min(50, (1 << 27) // nbytes))
        times = {way: list[float]() for way in ways}
        for call in ways.values():
            call()
        for turn in range(rounds):
            for way in (*list(ways)[turn % len(ways) :], *list(ways)[: turn % len(ways)]):
                torch.cuda.synchronize()
                comm.barrier()
                times[way].append(_timed_us(torch, ways[way], repeats))
        rows[str(nbytes)] = {way: round(statistics.median(found), 2) for way, found in times.items()}
        rows[str(nbytes)]["program"] = _program(comm, nbytes)
    return {"device": torch.cuda.get_device_name(0), "copy_Bps": _copy_Bps(torch), "us": rows}


def lacking_device() -> str:
    """The reason why this host measures nothing; "" where it does. CUDA is left to the ranks, which are forked."""
    if not find_spec("torch"):
        return "no torch is installed; expected one that was built for CUDA"
    import torch

    try:
        CDLL("libcuda.so.1")
    except OSError:
        return f"torch {torch.__version__} sees no GPU; expected one to measure"
    return ""


def _torch_group(comm: Communicator) -> str:
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(comm.broadcast_object(_port() if not comm.rank else 0)))
    os.environ["TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES"] = "1"
    dist.init_process_group("gloo", rank=comm.rank, world_size=comm.size)
    assert dist.group.WORLD is not None
    return str(dist.group.WORLD.group_name)


def _port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _ways(
    comm: Communicator, torch: Any, nbytes: int, group: str, peers: tuple[str, ...]
) -> dict[str, Callable[[], object]]:
    count = max(nbytes // 4, 1)
    own = {
        "symmetric": [comm.empty(count, np.float32, device="cuda") for _ in range(2)],
        "private": [torch.empty(count, device="cuda") for _ in range(2)],
    }
    ways: dict[str, Callable[[], object]] = {}
    for way in OWN:
        x, out = own[way]
        x.fill_(1)
        comm.all_reduce(x, out=out)
        torch.cuda.synchronize()
        assert bool((out == comm.size).all()), f"{way}, {nbytes} bytes: wrong"
        ways[way] = lambda x=x, out=out: comm.all_reduce(x, out=out)
    if peers:
        import torch.distributed._symmetric_memory as symmetric

        z = symmetric.empty(max(count, 4), device="cuda", dtype=torch.float32)
        symmetric.rendezvous(z, group)
        z.fill_(1)
        for name in peers:
            function = getattr(torch.ops.symm_mem, name)
            ways[name] = lambda function=function, z=z: function(z, "sum", group)
    return ways


def _timed_us(torch: Any, call: Callable[[], object], repeats: int) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(repeats):
        call()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / repeats * 1e3


def _program(comm: Communicator, nbytes: int) -> str:
    return comm.beside("cuda").chosen("all_reduce", max(nbytes // 4, 1), np.float32).part.program.name


def _copy_Bps(torch: Any) -> float:
    x, y = (torch.empty(1 << 28, device="cuda") for _ in range(2))
    y.copy_(x)
    return 2 * x.numel() * 4 / (_timed_us(torch, lambda: y.copy_(x), 10) / 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", "--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="", help="bytes, with commas")
    parser.add_argument("--alone", action="store_true", help="without torch's symmetric memory")
    parser.add_argument("--json", default="")
    args = parser.parse_args()
    if lacking := lacking_device():
        sys.exit(f"benchmarks.devices: {lacking}")
    sizes = tuple(int(size) for size in args.sizes.split(",")) if args.sizes else SIZES
    found = spawn(beside_torch, args.ranks, sizes, args.rounds, () if args.alone else PEERS, timeout_s=60)
    record = found[0]
    for nbytes, row in record["us"].items():
        quickest = min((row[p] for p in PEERS if p in row), default=0.0)
        ratio = f"{row['symmetric'] / quickest:6.2f}" if quickest else ""
        moved = 2 * int(nbytes) / (row["symmetric"] / 1e6) / record["copy_Bps"]  # a rank's, all at once
        print(f"{nbytes:>11} {row}  ratio {ratio}  of the copy rate {moved:.0%}")
    print(f"{record['device']}: copies {record['copy_Bps'] / 1e12:.2f} TB/s")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"ranks": args.ranks, "rounds": args.rounds, **record}, file, indent=1)


if __name__ == "__main__":
    main()
