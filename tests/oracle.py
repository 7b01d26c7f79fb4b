"""An independent judge of schedules: carries them out on random integers and compares with the collective's result.

It shares nothing with the library but the dataclasses: it repeats blocks, keeps buffers and states what each collective
promises on its own, so that a mistake in `expand`, in `Collective.promised` or in the verifier shows as a disagreement.
Every chunk is one 64-bit integer; what nobody wrote is garbage; sums wrap. A wrong schedule passes by chance about
once in 2**64 (for a barrier, whose tokens are sets of ranks, never).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ringtree.ir.schedule import Buffer, Schedule

DATA, INPUT, OUTPUT, SCRATCH = (int(b) for b in (Buffer.DATA, Buffer.INPUT, Buffer.OUTPUT, Buffer.SCRATCH))


class Row(NamedTuple):
    round: int
    source: int
    target: int
    source_buffer: int
    source_chunk: int
    target_buffer: int
    target_chunk: int
    count: int
    reduce: bool


def rows(schedule: Schedule) -> Iterator[Row]:
    """Every transfer in listed order with its absolute round, block by block and repetition by repetition."""
    n, start = schedule.ranks, 0
    length = {b: max(_length(schedule, b), 1) for b in (DATA, INPUT, OUTPUT, SCRATCH)}
    for block in schedule.blocks:
        t, s = block.rows, block.shift
        columns = [
            c.tolist()
            for c in (t.round, t.source, t.target, t.source_buffer, t.source_chunk, t.target_buffer, t.target_chunk)
        ]
        listed = list(zip(*columns, t.count.tolist(), t.reduce.tolist(), strict=True))
        depth = 1 + max((row[0] for row in listed), default=-1)
        for i in range(block.times):
            for k, src, dst, sb, sc, tb, tc, count, reduce in listed:
                yield Row(
                    start + k,
                    (src + i * s.source) % n if src < n else src,
                    (dst + i * s.target) % n if dst < n else dst,
                    sb,
                    (sc + i * s.source_chunk) % length[sb],
                    tb,
                    (tc + i * s.target_chunk) % length[tb],
                    count,
                    reduce,
                )
            start += depth


def replay(schedule: Schedule, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Each rank's output after the schedule ran on `inputs(schedule, seed)`, in Python."""
    given = inputs(schedule, seed)
    garbage = _garbage(schedule, seed)
    held: list[dict[int, Any]] = []
    for rank in range(schedule.ranks + schedule.switches):
        buffers = {b: garbage(_length(schedule, b)) for b in (DATA, OUTPUT, SCRATCH)}
        if rank < schedule.ranks:
            first = _start(schedule, rank, before=True)
            buffers[DATA][first : first + len(given[rank])] = given[rank]
            buffers[INPUT] = given[rank].copy()
        held.append(buffers)
    union = schedule.collective == "barrier"
    in_place = True
    pending: list[tuple[Row, Any]] = []

    def land() -> None:
        for row, value in pending:
            into = held[row.target][row.target_buffer][row.target_chunk : row.target_chunk + row.count]
            into[:] = (into | value if union else into + value) if row.reduce else value
        pending.clear()

    for row in rows(schedule):
        if pending and pending[0][0].round != row.round:
            land()
        in_place = in_place and not {row.source_buffer, row.target_buffer} & {INPUT, OUTPUT}
        value = held[row.source][row.source_buffer][row.source_chunk : row.source_chunk + row.count].copy()
        assert len(value) == row.count, f"{row} reads past the end of its buffer"
        pending.append((row, value))
    land()
    outputs = []
    for rank in range(schedule.ranks):
        count = len(_want(schedule, given, rank))
        first = _start(schedule, rank, before=False) if in_place else 0
        outputs.append(held[rank][DATA if in_place else OUTPUT][first : first + count])
    return outputs


def inputs(schedule: Schedule, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Each rank's input: random 64-bit integers, or for a barrier the set of ranks {itself} as a bit mask."""
    s, random = schedule, np.random.default_rng(seed)
    if s.collective == "barrier":
        return [np.array([1 << rank] * s.chunks, dtype=object) for rank in range(s.ranks)]
    if s.collective in ("broadcast", "scatter"):
        counts = [s.chunks if rank == s.root else 0 for rank in range(s.ranks)]
    elif s.collective in ("all_gather", "gather"):
        counts = [s.chunks // s.ranks] * s.ranks
    else:
        counts = [s.chunks] * s.ranks
    return [random.integers(0, 2**64, size=c, dtype=np.uint64) for c in counts]


def outputs(schedule: Schedule, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """The collective's result for each rank, from `inputs(schedule, seed)`."""
    given = inputs(schedule, seed)
    return [_want(schedule, given, rank) for rank in range(schedule.ranks)]


def wrong(schedule: Schedule, seed: int = 0) -> str | None:
    """The first rank and chunk where the schedule does not keep its promise, in words; None when it keeps it."""
    pairs = zip(replay(schedule, seed), outputs(schedule, seed), strict=True)
    for rank, (got, want) in enumerate(pairs):
        if len(got) != len(want):
            return f"{schedule.name}: rank {rank} has {len(got)} chunks; expected {len(want)}"
        for chunk in range(len(want)):
            if got[chunk] != want[chunk]:
                return f"{schedule.name}: rank {rank} output[{chunk}] is {got[chunk]}; expected {want[chunk]}"
    return None


def _want(s: Schedule, given: list[np.ndarray[Any, Any]], rank: int) -> np.ndarray[Any, Any]:
    mine = slice(rank * (s.chunks // s.ranks), (rank + 1) * (s.chunks // s.ranks))
    empty = np.empty(0, dtype=np.uint64)
    match s.collective:
        case "all_reduce":
            return np.add.reduce(given)
        case "barrier":
            return np.bitwise_or.reduce(given)
        case "scan":
            return np.add.reduce(given[: rank + 1])
        case "exscan":
            return np.add.reduce(given[:rank]) if rank else empty
        case "reduce_scatter":
            return np.add.reduce(given)[mine]
        case "all_gather":
            return np.concatenate(given)
        case "broadcast":
            return given[s.root or 0]
        case "reduce":
            return np.add.reduce(given) if rank == s.root else empty
        case "gather":
            return np.concatenate(given) if rank == s.root else empty
        case "scatter":
            return given[s.root or 0][mine]
        case "all_to_all":
            return np.concatenate([x[mine] for x in given])
    raise AssertionError(f"the oracle does not know {s.collective}")


def _start(s: Schedule, rank: int, *, before: bool) -> int:
    """Where the rank's input (`before`) or output begins on the whole vector."""
    own = ("all_gather", "gather") if before else ("reduce_scatter", "scatter")
    return rank * (s.chunks // s.ranks) if s.collective in own else 0


def _length(s: Schedule, buffer: int) -> int:
    own = {INPUT: ("all_gather", "gather"), OUTPUT: ("reduce_scatter", "scatter")}.get(buffer, ())
    if buffer == SCRATCH:
        return s.scratch
    return s.chunks // s.ranks if s.collective in own else s.chunks


def _garbage(s: Schedule, seed: int) -> Any:
    random = np.random.default_rng(seed + 1_000_003)
    if s.collective == "barrier":  # a rank that does not exist
        return lambda count: np.array([1 << s.ranks] * count, dtype=object)
    return lambda count: random.integers(0, 2**64, size=count, dtype=np.uint64)
