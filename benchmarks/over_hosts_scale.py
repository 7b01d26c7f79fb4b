"""What ranks on hosts of 8 cost as their number grows to 100,000, from the code and schedules: nothing is measured.

    python -m benchmarks.over_hosts_scale [RANKS ...]

Set-up: messages of a rank other than 0 (requests and answers), the bytes that pass through rank 0 for all ranks, and a
host's shared memory: address space, and what is committed before a call. Connections: pairs and directions of the rank
with the most, in one all_reduce by each algorithm, and in a pairwise all_to_all; beside them rank 0 has one from every
rank. Time: of an all_reduce by `price.Hosts`, 30 us and 10 Gbit/s between hosts, schedules not cut in pieces.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator

import numpy as np

from ringtree import _native
from ringtree.algorithms import build
from ringtree.ir.schedule import Schedule
from ringtree.ir.units import duration
from ringtree.plan.growth import closed
from ringtree.price import Hosts, SharedMemory, over_hosts
from ringtree.price.hosts import WIRE_MESSAGE_S
from ringtree.price.over_hosts import remote_ends
from ringtree.runtime.engines.shm import MOST_SLOTS, staging

RANKS = (2, 16, 64, 512, 4096, 32768, 100_000)
OF_A_HOST = 8
ALGORITHMS = ("ring", "double_tree", "hierarchical")
SIZES = (8, 1 << 20, 1 << 26)
MEMORY = SharedMemory(cores=OF_A_HOST, slots=8, slot_bytes=1 << 17)
EXCHANGED = (
    ["0" * 32, "a boot's id, and its namespace: 36 + 10"],
    [99_999, 1.4e-05],
    ["ff", None, None, ["10.99.255.255", 65535, "0" * 32], None],
)
"""Values as long as those of a rank: bootstrap.network.hosts names its host's socket, and the lowest rank that it
reaches; engines.shm offers its address."""


def setup(ranks: int) -> list[str]:
    """Messages of a rank, what passes through rank 0, and a host's memory."""
    asked = len(json.dumps(list(map(str, range(ranks)))))  # a request names the members
    passed = nbytes(ranks * sum(asked + ranks * len(json.dumps(value)) for value in EXCHANGED))
    messages = str(2 * len(EXCHANGED))
    if ranks > MOST_SLOTS:
        return [messages, passed, "refused", ""]
    sizes = ranks, *staging(ranks)
    return [
        messages,
        passed,
        nbytes(_native.segment_bytes(*sizes)),
        nbytes(_native.reserved_bytes(*sizes, lazily=True)),
    ]


def connections(schedule: Schedule, host_of: np.ndarray) -> int:
    """Pairs of ranks on two hosts, and their directions, of the rank with the most."""
    found = [np.stack([b.rows.source, b.rows.target]).astype(np.int64) for b in schedule.blocks]
    assert not any(b.shift.source or b.shift.target for b in schedule.blocks)
    source, target = np.concatenate([*found, np.empty((2, 0), np.int64)], axis=1)
    away = host_of[source] != host_of[target]
    pairs = np.unique(source[away] * schedule.ranks + target[away])
    ends = np.concatenate(np.divmod(pairs, schedule.ranks))
    return int(np.bincount(ends, minlength=1).max())


def seconds(name: str, schedule: Schedule, hosts: Hosts, size: int) -> float:
    """over_hosts.seconds, by the closed form of the links' part where there is one."""
    if (form := closed(name, "all_reduce")) is None or not hosts.each() > 1:
        return over_hosts.seconds(schedule, hosts, size)
    messages = float(remote_ends(schedule, hosts.host_of).max())
    return form(over_hosts.topology(hosts, size), schedule.ranks)(size) + messages * WIRE_MESSAGE_S


def rows(ranks: int) -> Iterator[list[str]]:
    each = OF_A_HOST if ranks > OF_A_HOST else 1
    host_of = np.arange(ranks) // each
    hosts = Hosts(tuple(host_of.tolist()), MEMORY)
    count = len(set(hosts.host_of))
    schedules = {
        name: build(name, "all_reduce", ranks, **({"group": each} if name == "hierarchical" else {}))
        for name in ALGORITHMS
    }
    linked = [str(connections(schedule, host_of)) for schedule in schedules.values()]
    to_all = str(2 * (ranks - each))  # pairwise: one to and one from every rank elsewhere
    yield [f"{ranks:,}", f"{count:,}", *setup(ranks), *linked, to_all]
    times = (seconds(name, schedule, hosts, size) for name, schedule in schedules.items() for size in SIZES)
    yield [f"{ranks:,}", *map(duration, times)]


def nbytes(number: int) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


def table(heads: list[str], lines: list[list[str]]) -> str:
    ruled = [heads, ["---:"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in ruled)


def main() -> None:
    began_s = time.perf_counter()
    found = [list(rows(int(ranks))) for ranks in sys.argv[1:] or RANKS]
    heads = ["ranks", "hosts", "messages", "through rank 0", "memory", "committed", *ALGORITHMS, "all_to_all"]
    print(table(heads, [lines[0] for lines in found]), "\n")
    timed = [f"{name}, {size}" for name in ALGORITHMS for size in ("8 B", "1 MiB", "64 MiB")]
    print(table(["ranks", *timed], [lines[1] for lines in found]))
    print(f"\n{time.perf_counter() - began_s:.1f} s")


if __name__ == "__main__":
    main()
