"""A schedule as text is exact: printed text reads back as the same blocks, and errors name the line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.algorithms import REGISTRY
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.schedule import Block, Buffer, Schedule, Shift, Transfers
from ringtree.ir.text import ScheduleTextError, format_schedule, parse_schedule
from tests.effort import counted


def ring(n: int) -> Schedule:
    r = np.arange(n)
    add = Block(Transfers.of(r, (r + 1) % n, (r - 1) % n, reduce=True), n - 1, Shift.chunk(-1))
    pass_on = Block(Transfers.of(r, (r + 1) % n, r), n - 1, Shift.chunk(-1))
    return Schedule("ring", "all_reduce", n, n, (add, pass_on))


def halving(n: int) -> Schedule:
    r, blocks, k = np.arange(n), [], n // 2
    while k:
        blocks.append(Block(Transfers.of(r, r ^ k, (r ^ k) & -k, count=k, reduce=True)))
        k //= 2
    return Schedule("halving", "reduce_scatter", n, n, tuple(blocks))


def chain(n: int, root: int) -> Schedule:
    i = np.arange(n - 1)
    rows = Transfers.of((root + i) % n, (root + i + 1) % n, 0, round=i)
    return Schedule("chain", "broadcast", n, 4, (Block(rows, 4, Shift.chunk(1)),), root=root)


def one_shot(n: int) -> Schedule:
    s, t = (x.ravel() for x in np.meshgrid(np.arange(n), np.arange(n), indexing="ij"))
    rows = Transfers.of(s, t, 0, reduce=s > 0, source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT)
    return Schedule("one_shot", "all_reduce", n, 1, (Block(rows),))


def several_chunks(n: int, per_rank: int) -> Schedule:
    k, c, r = (x.ravel() for x in np.meshgrid(np.arange(1, n), np.arange(per_rank), np.arange(n), indexing="ij"))
    rows = Transfers.of(r, (r + k) % n, r * per_rank + c)
    return Schedule("direct", "all_gather", n, n * per_rank, (Block(rows),))


def unrolled(s: Schedule) -> Schedule:
    return replace(s, blocks=(Block(s.expand()),))


def assert_same(got: Schedule, want: Schedule) -> None:
    assert got == want
    assert (got.name, len(got.blocks)) == (want.name, len(want.blocks))
    for a, b in zip(got.blocks, want.blocks, strict=True):
        assert (a.times, a.shift) == (b.times, b.shift)
        assert a.rows.same(b.rows)


def round_trip(s: Schedule) -> str:
    text = format_schedule(s)
    assert_same(parse_schedule(text), s)
    return text


def test_a_ring_is_three_lines():
    assert round_trip(ring(8)).splitlines() == [
        "schedule ring all_reduce: 8 ranks, 8 chunks",
        "7 times, chunk -1: r data[r-1] +> r+1",
        "7 times, chunk -1: r data[r] -> r+1",
    ]


@pytest.mark.parametrize(
    ("schedule", "lines"),
    [
        (
            halving(8),
            ["r data[down(r^4,4):+4] +> r^4", "r data[down(r^2,2):+2] +> r^2", "r data[r^1] +> r^1"],
        ),
        (chain(8, 0), ["4 times, chunk +1:", "  round r: r data[0] -> r+1 for r=0..6"]),
        (chain(8, 5), ["4 times, chunk +1:", "  round r: r-3 data[0] -> r-2 for r=0..6"]),
        (one_shot(5), ["0 input[0] -> r output[0]; r input[0] +> k output[0] for r=1..4, k=0..4"]),
        (several_chunks(8, 4), ["r data[4r+k] -> r+j for j=1..7, k=0..3"]),
        (
            unrolled(ring(8)),
            ["once:", "  round k: r data[r-k-1] +> r+1 for k=0..6", "  round k: r data[r-k-1] -> r+1 for k=7..13"],
        ),
    ],
)  # fmt: skip
def test_symmetry_is_found(schedule, lines):
    assert [line.removeprefix("once: ") for line in round_trip(schedule).splitlines()[1:]] == lines


def test_a_very_large_ring_is_printed_without_being_expanded():
    large = ring(100_000)
    with counted() as effort:
        assert format_schedule(large).count("\n") == 2
    assert effort.calls < 5000


def test_switches_and_odd_names():
    rows = [
        Transfers.of(np.arange(4), 4, 0, reduce=True, target_buffer=Buffer.SCRATCH),
        Transfers.of(4, np.arange(4), 0, round=1, source_buffer=Buffer.SCRATCH, target_buffer=Buffer.DATA),
    ]
    s = Schedule('a "switch":\n#', "all_reduce", 4, 1, (Block(Transfers.concatenate(rows)),), scratch=1, switches=1)
    assert "r data[0] +> 4 scratch[0]\n" in round_trip(s)


R4, R8 = np.arange(4), np.arange(8)


@pytest.mark.parametrize(
    ("rows", "chunks", "switches"),
    [
        (Transfers.of([0, 1, 2], [2, 3, 4], 0, target_buffer=[0, 0, 3]), 1, 1),  # rank 3, then switch 4, not rank 0
        (Transfers.of(R4, R4 + 2, 0, source_buffer=Buffer.SCRATCH), 1, 4),
        (Transfers.of(R4, R4 ^ 4, R4, source_buffer=Buffer.SCRATCH, target_buffer=Buffer.SCRATCH), 1, 4),
        (Transfers.of(R4, R4 ^ 1, R4), 3, 0),  # chunk 3 of 3
        (Transfers.of(R4, R4 + 1, R4), 3, 0),
        (Transfers.of(R8 // 2, 3 - R8 // 2, R8 - 4), 4, 0),
    ],
)
def test_nothing_is_turned_around_that_has_no_modulus(rows, chunks, switches):
    """Switches lie beyond the ranks, and an illegal row stays as illegal as it is."""
    round_trip(Schedule("x", "all_reduce", 4, chunks, (Block(rows),), scratch=4, switches=switches))


def test_an_empty_block_and_a_block_that_starts_late():
    s = Schedule("x", "all_reduce", 2, 1, (Block(Transfers.of([], [], []), 3), Block(Transfers.of(0, 1, round=2))))
    assert round_trip(s).splitlines()[1:] == ["3 times: nothing", "once:", "  round 2: 0 data[0] -> 1"]


def test_illegal_rows_print_too():
    rows = Transfers.of([0, 9, 1], [1, 2, 1], [0, -3, 5], count=[1, 2, 0], round=[3, 1, 1])
    round_trip(Schedule("x", "all_reduce", 4, 2, (Block(rows),)))


def test_an_unknown_buffer_is_refused():
    with pytest.raises(ValueError, match="buffer 7"):
        format_schedule(Schedule("x", "all_reduce", 2, 1, (Block(Transfers.of(0, 1, source_buffer=7)),)))


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Legal or nearly so, made of families (shuffled, cut, repeated) and loose rows."""
    n, per_rank = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    chunks, scratch, switches = n * per_rank, draw(st.integers(0, 3)), draw(st.integers(0, 2))
    buffers = st.sampled_from([Buffer.DATA] + ([Buffer.SCRATCH] if scratch else []))
    length = {Buffer.DATA: chunks, Buffer.SCRATCH: scratch}
    seed = np.random.default_rng(draw(st.integers(0, 2**32)))
    blocks = []
    for _ in range(draw(st.integers(0, 3))):
        parts, start = [], 0
        for _ in range(draw(st.integers(0, 6))):
            a, b = draw(buffers), draw(buffers)
            m = draw(st.integers(1, 2 * n))
            i = np.arange(m)
            by = seed.integers(-2, 3, 5)
            first = seed.integers(0, 20, 5)
            flip = int(seed.integers(0, n)) if draw(st.booleans()) else None
            source = (first[0] + i * by[0]) % n
            target = (source ^ flip) % n if flip is not None else (first[1] + i * by[1]) % n
            if switches and draw(st.booleans()):
                target = np.full(m, n)
            parts.append(
                Transfers.of(
                    source,
                    target,
                    (source >> 1 << 1) % length[a] if flip is not None else (first[2] + i * by[2]) % length[a],
                    to=(first[3] + i * by[3]) % length[b],
                    count=int(seed.integers(1, 3)),
                    reduce=bool(seed.integers(0, 2)),
                    round=start + i * int(by[4] > 0),
                    source_buffer=a,
                    target_buffer=b,
                )
            )
            start = int(parts[-1].round[-1]) + int(seed.integers(0, 2))
        rows = Transfers.concatenate(parts)
        if draw(st.booleans()) and len(rows):
            rows = rows.take(np.sort(seed.permutation(len(rows))[: len(rows) // 2 + 1]))
        shift = Shift(*map(int, seed.integers(-2, 3, 4))) if draw(st.booleans()) else Shift()
        blocks.append(Block(rows, draw(st.integers(1, 4)), shift))
    promise = COLLECTIVES[draw(st.sampled_from(sorted(COLLECTIVES)))]
    root = draw(st.integers(0, n - 1)) if promise.rooted else None
    return Schedule(draw(st.text(max_size=9)), promise.name, n, chunks, tuple(blocks), root, scratch, switches)


@given(schedules())
def test_printed_schedules_read_back(schedule):
    round_trip(schedule)
    round_trip(unrolled(schedule))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected 'schedule NAME COLLECTIVE: N ranks, N chunks', got nothing"),
        ("hello", "line 1: expected 'schedule NAME COLLECTIVE: N ranks, N chunks', got 'hello'"),
        ("schedule x dance: 2 ranks, 1 chunks", "line 1: expected a collective .*, got 'dance'"),
        ("schedule x barrier: 2 ranks", "line 1: expected 'N chunks', N at least 1"),
        ("schedule x barrier: 2 ranks, 2 ranks", "line 1: expected .* each once, got '2 ranks'"),
        ("0 data[0] -> 1", "line 3: expected a block: 'once' or 'N times', got|line 3: expected 'times', got"),
        ("  round 0: 0 data[0] -> 1", "line 3: expected a block"),
        ("once:\n\n# nothing here", "line 3: expected rounds, indented, below this head; got none"),
        ("once: 0 data[0] => 1", "line 3: expected '->' .*, got '= > 1'"),
        ("once: 0 data[0 -> 1", r"line 3: expected '\]', got '-> 1'"),
        ("once: 0 dato[0] -> 1", "line 3: expected a buffer \\(data, input, output, scratch\\), got 'dato"),
        ("once: 0 data[0] -> 1 2", "line 3: expected ';' or the end of the line, got '2'"),
        ("once: 0 data[0] ->", "line 3: expected a number or a variable .*, got 'the end of the line'"),
        ("once: k data[0] -> 1", "line 3: expected 'for k=N..N'"),
        ("once: r data[0] -> 1 for q=1..2", "line 3: expected a variable"),
        ("once: r data[0] -> 1 for r=2..1", "line 3: expected a range"),
        ("once: r data[0] -> 1 for r=0..2000000000", "line 3: expected at most"),
        ("once: r data[0] -> k for r=0..99999, k=0..99999", "line 3: expected at most"),
        ("once: 99999999999 data[0] -> 1", r"line 3: expected a number below 2\*\*31"),
        ("once, chunk 1: 0 data[0] -> 1", r"line 3: expected '\+', got '1"),
        ("once, chunk +1, source chunk +1: 0 data[0] -> 1", "line 3: expected the fields that move"),
        ("once: 0 data[0] -> 1 ?", "line 3: expected ';' or the end of the line, got '\\?'"),
        ("once: r data[r:4] -> 1", "line 3: expected '\\+N'"),
        ("once:\n  round 0: 0 data[0] -> 1\n  round: 0 data[0] -> 1", "line 5: expected a number or a variable"),
    ],
)
def test_a_mistake_is_named_by_line(text, message):
    head = (
        ""
        if not text or text.startswith(("schedule", "hello"))
        else "# a comment\nschedule x barrier: 2 ranks, 1 chunks\n"
    )
    with pytest.raises(ScheduleTextError, match=f"^{message}"):
        parse_schedule(head + text)


@given(st.text(alphabet="rk0123456789 ,.:;[]()^+-><data\nonce times round for down chunk", max_size=80))
def test_any_text_is_a_schedule_or_an_error(text):
    try:
        parse_schedule("schedule x barrier: 2 ranks, 1 chunks\n" + text)
    except ScheduleTextError as e:
        assert str(e).startswith("line ")


@pytest.mark.parametrize("name", REGISTRY)
def test_golden(name, golden):
    """Every algorithm as it prints: what a change to one changes is seen in the diff."""
    schedules = [REGISTRY[name].build(c, n) for c in REGISTRY[name].serves for n in (5, 8)]
    texts = [round_trip(s) for s in schedules]
    golden(f"schedules/{name}.txt", "\n\n".join(texts))


@pytest.mark.parametrize("what", ["100000000 ranks, 1 chunks", "2 ranks, 100000000 chunks"])
def test_a_short_line_does_not_cost_much_memory(what: str) -> None:
    with pytest.raises(ScheduleTextError, match=r"line 1: expected at most \d+ \w+, got .100000000."):
        parse_schedule(f"schedule x all_reduce: {what}\nonce: r data[r] -> r+1\n")
