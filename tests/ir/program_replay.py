"""Runs programs on integers in one process: lanes are queues, a slot is a copy. Shares no code with any engine."""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np

from ringtree.ir.program import Kind, Program, Space
from ringtree.ir.schedule import Schedule


def replay(schedule: Schedule, programs: tuple[Program, ...], seed: int = 0) -> None:
    """Asserts that every rank ends with what the collective promises, for random integers; AssertionError otherwise."""
    n, chunks, promise, root = schedule.ranks, schedule.chunks, schedule.promise, schedule.root or 0
    whole = np.random.default_rng(seed).integers(-1000, 1000, (n, chunks))
    spaces = [
        {
            Space.INPUT: whole[r][list(promise.precondition(r, n, chunks, root))],
            Space.OUTPUT: np.full(len(promise.postcondition(r, n, chunks, root)), 10**9),
            Space.SCRATCH: np.full(programs[r].scratch, 10**9),
        }
        for r in range(n)
    ]
    lanes: dict[tuple[int, int], deque[np.ndarray]] = defaultdict(deque)
    registers: list[dict[tuple[Space, int], np.ndarray]] = [{} for _ in range(n)]
    done = [0] * n

    def step(r: int) -> bool:
        if done[r] == len(programs[r].instructions):
            return False
        i = programs[r].instructions[done[r]]
        if i.kind is Kind.WAIT:
            if not lanes[i.peer, r]:
                return False
            registers[r][Space.MESSAGE, i.register] = lanes[i.peer, r].popleft()
        elif i.kind is Kind.SIGNAL:
            lanes[r, i.peer].append(registers[r][Space.SLOT, i.register])
        elif i.kind in (Kind.COPY, Kind.REDUCE):
            value = sum(
                registers[r][o.space, o.index] if o.space is Space.MESSAGE else spaces[r][o.space][o.index :][: o.count]
                for o in i.sources
            )
            for t in i.targets:
                if t.space is Space.SLOT:
                    registers[r][t.space, t.index] = np.array(value)
                else:
                    spaces[r][t.space][t.index : t.index + t.count] = value
        done[r] += 1
        return True

    while any([step(r) for r in range(n)]):
        pass
    assert all(done[r] == len(programs[r].instructions) for r in range(n)), f"{schedule.name}: stuck at {done}"
    for r in range(n):
        _, label, origin = promise.promised(r, n, chunks, root)
        want = [whole[:, k].sum() if o < 0 else whole[o, k] for k, o in zip(label, origin, strict=True)]
        assert spaces[r][Space.OUTPUT].tolist() == want, f"{schedule.name}: rank {r}"
        assert np.array_equal(spaces[r][Space.INPUT], whole[r][list(promise.precondition(r, n, chunks, root))])
