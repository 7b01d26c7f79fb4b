"""The native engine by itself: hand-made programs on forked ranks around one memfd."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import numpy as np
import pytest

from ringtree import _native
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from tests.runtime.engines import native_world as nw
from tests.runtime.engines.native_world import one_shot, prepare, run, two_shot, values, world
from tests.waiting import Event

FLOAT = _native.DTYPES["float32"]
INTS, FLOATS = ("int32", "int64"), ("float32", "float64")


def data(dtype: str, rank: int, count: int) -> np.ndarray[Any, Any]:
    """Small whole numbers: every sum and product of a few is exact in every type."""
    return ((np.arange(count) * (rank + 2) + rank) % 3 + 1).astype(dtype)


def expected(dtype: str, redop: str, ranks: int, count: int) -> np.ndarray[Any, Any]:
    every = np.stack([data(dtype, r, count) for r in range(ranks)])
    if redop == "avg":
        total = every.sum(axis=0, dtype=dtype)
        return np.trunc(total / ranks).astype(dtype) if dtype in INTS else total / np.dtype(dtype).type(ranks)
    reduce = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}[redop]
    return reduce(every, axis=0).astype(dtype)


@pytest.mark.parametrize("ranks", [1, 2, 3, pytest.param(5, marks=pytest.mark.slow)])
def test_every_type_operation_and_cut(ranks: int) -> None:
    def rank_of(group: _native.Group, rank: int) -> int:
        done = 0
        for dtype in (*INTS, *FLOATS):
            for redop in ("sum", "prod", "max", "min", "avg"):
                for count, window in ((0, 0), (1, 0), (3, 0), (1000, 0), (1000, 64), (4099, 96)):
                    for program in (one_shot(rank, ranks), two_shot(rank, ranks)):
                        if program.name == "one_shot":
                            window = min(window or 256, 256)
                        plan = prepare(group, program, count, dtype, redop, window or 256)
                        x = data(dtype, rank, count)
                        want = expected(dtype, redop, ranks, count)
                        if ranks > 1 or program.name == "one_shot":
                            np.testing.assert_array_equal(run(group, plan, x, np.zeros_like(x)), want)
                            np.testing.assert_array_equal(run(group, plan, x, x), want)  # in place
                            done += 2
        return done

    assert values(world(ranks, rank_of)) == [(1 if ranks == 1 else 2) * 4 * 5 * 6 * 2] * ranks


@pytest.mark.parametrize("redop", ["sum", "avg", "max", "prod"])
def test_bfloat16_is_rounded_once(redop: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    ranks, count = 4, 1003
    rng = np.random.default_rng(1)
    every = rng.standard_normal((ranks, count)).astype(ml_dtypes.bfloat16)

    def rank_of(group: _native.Group, rank: int) -> bytes:
        plan = prepare(group, one_shot(rank, ranks), count, "bfloat16", redop)
        return run(group, plan, every[rank].view(np.uint16), np.zeros(count, np.uint16)).tobytes()

    wide = every.astype(np.float32)
    total = wide[0]
    for row in wide[1:]:
        total = {"sum": np.add, "avg": np.add, "max": np.maximum, "prod": np.multiply}[redop](total, row)
    want = total.astype(ml_dtypes.bfloat16)
    if redop == "avg":
        want = (want.astype(np.float32) / ranks).astype(ml_dtypes.bfloat16)
    assert values(world(ranks, rank_of)) == [want.tobytes()] * ranks


def test_nan_wins_max_and_min() -> None:
    def rank_of(group: _native.Group, rank: int) -> list[bool]:
        x = np.array([np.nan, 1, 2] if rank else [1, np.nan, 3], dtype=np.float32)
        got = [run(group, prepare(group, one_shot(rank, 2), 3, redop=o), x, np.zeros_like(x)) for o in ("max", "min")]
        return [bool(v) for row in got for v in np.isnan(row)]

    assert values(world(2, rank_of)) == [[True, True, False] * 2] * 2


def test_strided_chunks_travel_as_one_message() -> None:
    """Two chunks that are apart in the output, together in the message, cut into windows."""
    sizes = np.array([5, 3], dtype=np.int64)
    pair = Operand(Space.INPUT, 0, 0, 2)

    def rank_of(group: _native.Group, rank: int) -> list[float]:
        steps = nw.send(0, pair, 1) if rank == 0 else nw.receive(Operand(Space.OUTPUT, 0, 0, 2), 0)
        program = Program("pair", "broadcast", rank, 2, 2, (tuple(steps),), root=0)
        apart, together = np.array([0, 6], dtype=np.int64), np.array([0, 5], dtype=np.int64)
        plan = group.prepare(*program.encode(), sizes, together, apart, 0, 2, 11, -1, "broadcast", 0, 8, 1)
        return run(group, plan, np.arange(1.0, 9, dtype=np.float32), np.zeros(9, np.float32)).tolist()

    assert values(world(2, rank_of))[1] == [1, 2, 3, 4, 5, 0, 6, 7, 8]


def test_counters_count_bytes_by_sender() -> None:
    def rank_of(group: _native.Group, rank: int) -> list[list[int]]:
        plan = prepare(group, two_shot(rank, 3), 999, window=100)
        x = np.ones(999, np.float32)
        run(group, plan, x, x)
        before = group.counters().tolist()
        group.reset_counters()
        assert not group.counters().any()
        return before

    row = [2 * 333 * 4, 8]
    assert values(world(3, rank_of)) == [[[0, 0] if p == r else row for p in range(3)] for r in range(3)]


def test_a_call_serves_remembered_arguments_only() -> None:
    def rank_of(group: _native.Group, rank: int) -> list[bool]:
        x, y = np.arange(4.0, dtype=np.float32), np.zeros(4, np.float32)
        answers = [group.call(0, x, y, "sum", -1)]
        group.remember(0, "f", FLOAT, "sum", -1, 4, 4, prepare(group, one_shot(rank, 2), 4))
        answers.append(group.call(0, x, y, "sum", -1) and y.tolist() == [0, 2, 4, 6])
        answers.append(group.call(0, x, x, "sum", -1) and x.tolist() == [0, 2, 4, 6])
        read_only = y.copy()
        read_only.flags.writeable = False
        group.remember(0, "f", FLOAT, "sum", -1, 4, 4, prepare(group, one_shot(rank, 2), 4, redop="max"))
        answers.append(group.call(0, x, y, "sum", -1) and y.tolist() == x.tolist())  # the plan remembered last counts
        wide = np.zeros(5, np.float32)
        for a, b, op in [
            (x, np.zeros(4, np.int32), "sum"), (x.astype(np.int32), y, "sum"), (x, y, "max"), (x, read_only, "sum"),
            (np.zeros(8, np.float32)[::2], y, "sum"), (x, np.zeros(3, np.float32), "sum"), (x, None, "sum"),
            (wide[:4], wide[1:], "sum"), (object(), y, "sum"),
        ]:  # fmt: skip
            answers.append(group.call(0, a, b, op, -1))
        group.remember(0, "f", FLOAT, "sum", -1, 4, 4, prepare(group, one_shot(rank, 2), 4), offset=None)
        answers.append(group.call(0, x, x, "sum", -1))
        answers.append(group.call(0, x, y, "sum", -1))
        return answers

    assert values(world(2, rank_of)) == [[False, True, True, True] + [False] * 10 + [True]] * 2


def test_a_call_by_addresses_serves_remembered_arguments_only() -> None:
    def rank_of(group: _native.Group, rank: int) -> list[Any]:
        x, y = np.arange(4.0, dtype=np.float32), np.zeros(4, np.float32)
        at, to = x.ctypes.data, y.ctypes.data
        group.remember(0, "", FLOAT, "sum", -1, 4, 4, prepare(group, one_shot(rank, 2), 4))
        answers: list[Any] = [group.call(0, x, y, "sum", -1)]  # remembered by its type
        answers.append(group.call_at(0, FLOAT, "sum", -1, at, 4, to, 4) and y.tolist() == [0, 2, 4, 6])
        answers.append(group.call_at(0, FLOAT, "sum", -1, at, 4, at, 4) and x.tolist() == [0, 2, 4, 6])
        for signature in [
            (1, FLOAT, "sum", -1, at, 4, to, 4), (0, 1, "sum", -1, at, 4, to, 4), (0, FLOAT, "max", -1, at, 4, to, 4),
            (0, FLOAT, "sum", 0, at, 4, to, 4), (0, FLOAT, "sum", -1, at, 3, to, 4), (0, FLOAT, "sum", -1, 0, 0, to, 4),
            (0, FLOAT, "sum", -1, at, 4, at + 4, 4), (0, FLOAT, None, -1, at, 4, to, 4),
            (0, 2**40, "sum", -1, at, 4, to, 4), (0, FLOAT, "sum", -1, 2**80, 4, to, 4),
            (0, FLOAT, "sum", np.int64(-1), at, 4, to, 4),
        ]:  # fmt: skip
            answers.append(group.call_at(*signature))
            assert group.start_at(*signature) == 0
        x[:] = 1
        ticket = group.start_at(0, FLOAT, "sum", -1, at, 4, to, 4)
        answers.append(ticket > 0 and group.wait(ticket, -1.0) and y.tolist() == [2.0] * 4)
        with pytest.raises(TypeError, match="expected 8 arguments, got 2"):
            group.call_at(0, FLOAT)  # type: ignore[call-arg]
        return answers

    assert values(world(2, rank_of)) == [[True, True, True, *[False] * 11, True]] * 2


def test_a_rank_alone_runs_a_short_call_at_once() -> None:
    def rank_of(group: _native.Group, rank: int) -> list[bool]:
        x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
        plan, ended = prepare(group, one_shot(rank, 1), 4), []
        for turn in range(20):
            x[:] = turn
            ended.append(group.done(group.start(plan, x.ctypes.data, y.ctypes.data)) and (y == turn).all())
        return ended

    assert values(world(1, rank_of)) == [[True] * 20]


def test_asynchronous_calls_run_in_order_and_before_synchronous_ones() -> None:
    def rank_of(group: _native.Group, rank: int) -> list[float]:
        plan = prepare(group, one_shot(rank, 2), 1)
        x = np.ones(1, np.float32)
        tickets = [group.start(plan, x.ctypes.data, x.ctypes.data) for _ in range(5)]
        if rank:
            time.sleep(0.05)
        run(group, plan, x, x)
        assert group.done(tickets[-1]) and all(group.wait(t, -1) for t in tickets)
        return [x[0], group.calls]

    assert values(world(2, rank_of)) == [[64, 6]] * 2


def test_wait_gives_up_and_may_be_repeated() -> None:
    gave_up = Event()

    def rank_of(group: _native.Group, rank: int) -> list[bool]:
        plan = prepare(group, one_shot(rank, 2), 1)
        x = np.ones(1, np.float32)
        if rank:
            gave_up.wait()
        ticket = group.start(plan, x.ctypes.data, x.ctypes.data)
        waited = [group.wait(ticket, 0.05)] if rank == 0 else []
        gave_up.set()
        return [*waited, group.wait(ticket, 60)]

    assert values(world(2, rank_of)) == [[False, True], [True]]


@pytest.mark.parametrize("count", [8, 512, 4096])
def test_arrays_in_a_region_are_read_in_place(count: int) -> None:
    def rank_of(group: _native.Group, rank: int) -> tuple[float, float]:
        fd = shared
        address = group.add_region(fd, 2 * 16384, rank * 16384)
        x = np.frombuffer((nw.c_char * (count * 4)).from_address(address), np.float32)
        assert x.ctypes.data == address
        plan = prepare(group, two_shot(rank, 2), count, window=256)
        flat = prepare(group, nw.broadcast(rank, 2, 0), count, window=1000)
        total = 0.0
        for turn in range(50):
            x[:] = rank + turn
            run(group, plan, x, x)  # in place
            total += float(abs(x - (2 * turn + 1)).max())
            x[:] = rank + turn
            total += float(abs(run(group, plan, x, np.zeros_like(x)) - (2 * turn + 1)).max())
            x[:] = turn if rank == 0 else -1
            run(group, flat, x, x)
            total += float(abs(x - turn).max())
            x[:] = -5  # the root may write at once: everyone has read
        return total, float(x[0])

    shared = os.memfd_create("region")
    os.ftruncate(shared, 2 * 16384)
    assert [v[0] for v in values(world(2, rank_of))] == [0, 0]
    os.close(shared)


@pytest.mark.parametrize("ranks", [2, 3])
def test_lending_does_not_deadlock_where_slots_would_not(ranks: int) -> None:
    """Every rank sends, without a copy, bytes that it then overwrites with received ones: a rank has to make a copy."""
    count = 1024

    def rank_of(group: _native.Group, rank: int) -> list[float]:
        address = group.add_region(shared, ranks * 4096, rank * 4096)
        x = np.frombuffer((nw.c_char * 4096).from_address(address), np.float32)
        steps = nw.send(0, nw.at(Space.INPUT, 0), (rank + 1) % ranks)
        steps += nw.receive(nw.at(Space.OUTPUT, 0), (rank - 1) % ranks)
        rotate = prepare(group, Program("rotate", "other", rank, ranks, 1, (tuple(steps),)), count, redop=None)
        add = prepare(group, one_shot(rank, ranks), count)
        x[:] = rank
        seen = []
        for _ in range(30):
            run(group, rotate, x, x)
            seen.append(float(x.min()) if (x == x[0]).all() else -1)
        run(group, add, x, x)
        return [*seen, float(x[0])]

    shared = os.memfd_create("region")
    os.ftruncate(shared, ranks * 4096)
    ends = world(ranks, rank_of, timeout_s=60)
    os.close(shared)
    for rank, seen in enumerate(values(ends)):
        assert seen[:-1] == [(rank - 1 - turn) % ranks for turn in range(30)]
        assert seen[-1] == ranks * (ranks - 1) / 2


def test_ranks_may_be_threads() -> None:
    def rank_of(group: _native.Group, rank: int) -> float:
        plan = prepare(group, two_shot(rank, 4), 1000, window=64)
        x = np.full(1000, rank, np.float32)
        for _ in range(20):
            run(group, plan, x, x)
            x /= 4
        return float(x[0])

    assert values(nw.thread_world(4, rank_of)) == [1.5] * 4


def test_a_signal_handler_ends_a_wait() -> None:
    ended = Event()

    def rank_of(group: _native.Group, rank: int) -> None:
        plan = prepare(group, one_shot(rank, 2), 1)
        x = np.ones(1, np.float32)
        if rank:
            ended.wait()
        else:
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            run(group, plan, x, x)
        finally:
            ended.set()

    ends = world(2, rank_of)
    assert ends[0].error is KeyboardInterrupt
    assert ends[1].error is _native.Poisoned and "rank 0 was interrupted in all_reduce, call 1" in ends[1].text


def test_a_window_may_be_one_element() -> None:
    """A chunk of any length then fits a slot."""

    def rank_of(group: _native.Group, rank: int) -> bool:
        x = np.arange(2 * nw.SLOT_BYTES, dtype=np.float32)
        plan = prepare(group, one_shot(rank, 2), len(x), window=1)
        return bool((run(group, plan, x, np.empty_like(x)) == 2 * x).all())

    assert [end.value for end in world(2, rank_of)] == [True, True]


@pytest.mark.parametrize(
    ("steps", "complaint"),
    [
        (nw.send(0, nw.at(Space.INPUT, 4, 0), 1), "steps outside its memory"),
        (nw.send(0, nw.at(Space.INPUT, 0), 2), "names peer 2 of 2"),
        ([Instruction(Kind.SIGNAL, peer=1, register=0)], "never written"),
        ([Instruction(Kind.WAIT, peer=1, register=0)], "unreleased"),
        ([Instruction(Kind.RELEASE, peer=1)], "not held"),
        ([Instruction(Kind.COPY, (nw.at(Space.OUTPUT, 0),), (Operand(Space.MESSAGE, 0, 0),))], "never came"),
        ([Instruction(Kind.COPY, (nw.at(Space.OUTPUT, 0, 0, 2),), (nw.at(Space.INPUT, 0),))], "different numbers"),
        (
            [Instruction(Kind.COPY, (nw.at(Space.OUTPUT, 0),), (Operand(Space.INPUT, 2**31 - 1, 0),))],
            "outside its memory",
        ),
        ([Instruction(Kind.COPY, (nw.at(Space.OUTPUT, 0),), (Operand(Space.INPUT, 0, 2**31 - 1),))], "does not exist"),
        ([Instruction(Kind.COPY, (nw.at(Space.SLOT, 1000, 0),), (nw.at(Space.INPUT, 0),))], "names register 1000"),
        (
            [
                Instruction(Kind.COPY, (nw.at(Space.SLOT, 0, 0),), (nw.at(Space.INPUT, 0),)),
                Instruction(Kind.COPY, (nw.at(Space.OUTPUT, 0, 0, 2),), (nw.at(Space.SLOT, 0, 0, 2),)),
            ],
            "other sizes than the slot",
        ),
        (
            [
                Instruction(Kind.WAIT, peer=1, register=0),
                Instruction(Kind.RELEASE, peer=1),
                Instruction(Kind.COPY, (nw.at(Space.OUTPUT, 0),), (nw.at(Space.MESSAGE, 0, 0),)),
            ],
            "a message that it has released",
        ),
    ],
)
def test_a_program_that_makes_no_sense_is_refused(steps: list[Instruction], complaint: str) -> None:
    with nw.segment(2) as fd:
        group = nw.endpoint(fd, 0, 2)
        with pytest.raises(ValueError, match=complaint):
            prepare(group, Program("bad", "broadcast", 0, 2, 2, (tuple(steps),), root=0), 8)
        with pytest.raises(ValueError, match="smaller window"):
            prepare(group, two_shot(0, 2), 100_000)
        group.close()


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"sizes": [2**62, 2**62]}, "longer than memory"),
        ({"sizes": [-1, 4]}, "negative size"),
        ({"input_offsets": [-4, 4]}, "begins at -4"),
        ({"output_offsets": [0, 2**60]}, "begins at 1152921504606846976"),
        ({"scratch": -1}, "-1 chunks of scratch"),
        ({"scratch": 2**60}, "chunks of scratch"),
    ],
)
def test_sizes_that_no_memory_has_are_refused(changed: dict[str, Any], complaint: str) -> None:
    table: dict[str, Any] = {"sizes": [4, 4], "input_offsets": [0, 4], "output_offsets": [0, 4], "scratch": 0} | changed
    columns = {name: np.array(value, np.int64) if name != "scratch" else value for name, value in table.items()}
    instructions, operands = Program("bad", "broadcast", 0, 2, 2, ((),), root=0).encode()
    with nw.segment(2) as fd:
        group = nw.endpoint(fd, 0, 2)
        with pytest.raises(ValueError, match=complaint):
            group.prepare(
                instructions, operands, columns["sizes"], columns["input_offsets"], columns["output_offsets"],
                columns["scratch"], 0, _native.DTYPES["float32"], -1, "broadcast", 0, 8, 0,
            )  # fmt: skip
        group.close()
