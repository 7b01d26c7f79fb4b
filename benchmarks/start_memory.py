"""The memory that a rank holds beyond numpy and its own arrays, after each step of its start.

    ringtree run -n 8 benchmarks/start_memory.py

Rank 0 prints a table in Markdown, the medians over ranks in MiB: resident pages; of them, those that no other process
has, and those of the group's shared memory, which all ranks see and the machine has once.
"""

from __future__ import annotations

import numpy as np

import ringtree

MIB = 1 << 20
SHARED = "memfd:ringtree"


def held() -> tuple[int, int, int]:
    """Resident bytes of this process: all, those of no other process, and those of shared memory of ringtree's."""
    resident = private = shared = 0
    ours = False
    with open("/proc/self/smaps") as lines:
        for line in lines:
            name, value = line.split()[:2]
            if not name.endswith(":"):  # the head of another mapping
                ours = SHARED in line
            elif name == "Rss:":
                resident += int(value) << 10
                shared += (int(value) << 10) * ours
            elif name in ("Private_Clean:", "Private_Dirty:"):
                private += int(value) << 10
    return resident, private, shared


def main() -> None:
    x = np.ones(64 * MIB // 4, np.float32)
    steps = {"numpy, and 64 MiB of arrays": held()}
    comm = ringtree.init()
    steps["`init()`"] = held()
    comm.all_reduce(x[:2], out=x[:2])
    steps["an all_reduce of 8 B"] = held()
    comm.all_reduce(x, out=x)
    steps["one of 64 MiB"] = held()
    ranks = comm.gather(np.array(list(steps.values())))  # [ranks, steps, 3]
    if ranks is None:
        return
    found = np.median(ranks, axis=0) / MIB
    beyond = found - found[0]
    print(f"| after ({comm.size} ranks) | resident, MiB | beyond numpy | of no other process | shared memory |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, here, (more, private, shared) in zip(steps, found, beyond, strict=True):
        print(f"| {name} | {here[0]:.1f} | {more:.1f} | {private:.1f} | {shared:.1f} |")


if __name__ == "__main__":
    main()
