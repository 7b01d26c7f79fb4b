"""A picture shows every transfer: it is read back, arrow by arrow, by a reader that shares no code with the drawing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.algorithms import build, pairs
from ringtree.draw.text.picture import picture
from ringtree.ir.schedule import Block, Buffer, Schedule, Shift, Transfers
from ringtree.ir.text import parse_schedule

Row = tuple[int, int, int, str, bool]  # round, source, target, label, reduce
HEADS = "▶◀⊕"


def rows_of(rows: Transfers, start: int = 0) -> Counter[Row]:
    """The transfers, each with its label by the picture's legend."""

    def side(buffer: int, chunk: int, count: int, plain: tuple[Buffer, Buffer]) -> str:
        span = str(chunk) if count == 1 else f"{chunk}:{chunk + count}"
        return span if buffer in plain else Buffer(buffer).name[0].lower() + span

    found = Counter[Row]()
    for i in range(len(rows)):
        count = int(rows.count[i])
        here = side(int(rows.source_buffer[i]), int(rows.source_chunk[i]), count, (Buffer.DATA, Buffer.INPUT))
        there = side(int(rows.target_buffer[i]), int(rows.target_chunk[i]), count, (Buffer.DATA, Buffer.OUTPUT))
        label = here if here == there and here[0].isdigit() else f"{here}→{there}"
        found[int(rows.round[i]) + start, int(rows.source[i]), int(rows.target[i]), label, bool(rows.reduce[i])] += 1
    return found


def expected(s: Schedule) -> Counter[Row]:
    """A block that repeats with the same ranks once, the others in full."""
    found, start = Counter[Row](), 0
    for b in s.blocks:
        once = not (b.shift.source or b.shift.target)
        block = Block(b.rows, 1) if once else b
        found += rows_of(Schedule(s.name, s.collective, s.ranks, s.chunks, (block,), s.root, s.scratch).expand(), start)
        start += b.rounds * b.times
    return found


def read(text: str, s: Schedule) -> Counter[Row]:
    lines = text.splitlines()
    columns = [m.start() for m in re.finditer(r"\d+", lines[1])]
    head = f"schedule x {s.collective}: {s.ranks} ranks, {s.chunks} chunks"
    head += (f", root {s.root}" if s.root is not None else "") + (f", {s.scratch} scratch" if s.scratch else "")
    found, number, words = Counter[Row](), -1, ""
    for line in [*lines[2:], ""]:
        drawn = len(line) > columns[0] and line[columns[0]] in "│●" and not words
        if words and (line[:1].strip() or drawn or line[columns[0] : columns[0] + 1] in ("│", "")):
            found += rows_of(parse_schedule(f"{head}\nonce: {words}").expand(), number)
            words = ""
        if m := re.match(r"(?:round )?(\d+)\s", line):
            number = int(m[1])
        if m := re.search(r"\d+ (?:copy|copies|transfers?): (.*)", line):
            words = m[1]
        elif words:
            words += " " + line.strip()
        elif drawn:
            for arrow in arrows(line, columns):
                found[(number, *arrow)] += 1
    return found


def arrows(line: str, columns: list[int]) -> Iterator[tuple[int, int, str, bool]]:
    """Right-going arrows as they are; left-going ones in the mirror."""
    last = len(columns) - 1
    line = line.ljust(columns[-1] + 1)
    between = [line[a + 1 : b] for a, b in pairwise(columns)]
    glyphs = [line[c] for c in columns]
    yield from right_going(glyphs, between, mirror=False)
    swap = str.maketrans("▶◀", "◀▶")
    mirrored = [b.translate(swap)[::-1] for b in between[::-1]]
    for source, target, label, reduce in right_going(glyphs[::-1], mirrored, mirror=True):
        yield last - source, last - target, label, reduce


def right_going(glyphs: list[str], between: list[str], *, mirror: bool) -> Iterator[tuple[int, int, str, bool]]:
    def label(part: str) -> str:
        text = part.strip("─ " + HEADS)
        return text[::-1] if mirror else text

    for target in range(1, len(glyphs)):
        if between[target - 1][-1] not in "▶⊕":
            continue
        reduce = between[target - 1][-1] == "⊕"
        at, first = target - 1, True
        while True:
            path = [between[at]]
            while glyphs[at] == "┼":
                at -= 1
                path.append(between[at])
            if glyphs[at] != "●" or (not first and path[-1][0] in "◀⊕"):
                break  # not a sender of this fan in
            if first and not label(path[0]):
                found = next(filter(None, map(label, reversed(path))))
            else:
                found = label(path[0]) if first else label(path[-1])
            if "⇄" in found:
                found = found.split("⇄")[1 if mirror else 0]
            yield at, target, found, reduce
            exchange = path[-1][0] in "◀⊕"
            first, at = False, at - 1
            if exchange or at < 0 or not between[at].strip() or between[at][-1] in "▶⊕":
                break


@pytest.mark.parametrize(("name", "collective"), pairs())
def test_every_algorithm_reads_back(name: str, collective: str) -> None:
    for ranks in (1, 2, 3, 5, 8):
        s = build(name, collective, ranks)
        text = picture(s)
        assert max(map(len, text.splitlines())) <= 100
        assert not s.transfers or read(text, s) == expected(s), text


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Anything that can be drawn: not legal, and not right."""
    ranks, chunks, blocks = draw(st.integers(2, 6)), 4, []
    buffers = st.sampled_from([(Buffer.DATA, Buffer.DATA), (Buffer.INPUT, Buffer.OUTPUT), (Buffer.SCRATCH,) * 2])
    for _ in range(draw(st.integers(1, 2))):
        row = st.tuples(
            st.integers(0, ranks - 1),
            st.integers(0, ranks - 1),
            st.integers(0, 3),
            buffers,
            st.booleans(),
            st.integers(0, 1),
        )
        rows = sorted(draw(st.lists(row, min_size=1, max_size=12)), key=lambda r: r[-1])
        source, target, chunk, buffer, reduce, round_ = zip(*rows, strict=True)
        a, b = zip(*buffer, strict=True)
        taken = Transfers.of(
            source, target, chunk, reduce=reduce, round=np.array(round_) - min(round_), source_buffer=a, target_buffer=b
        )
        shift = draw(st.sampled_from([Shift(), Shift.chunk(1), Shift(1, 1)]))
        blocks.append(Block(taken, draw(st.integers(1, 3)), shift))
    return Schedule("any", "all_reduce", ranks, chunks, tuple(blocks), None, 4)


@given(schedules(), st.sampled_from([100, 60]))
def test_any_schedule_reads_back(s: Schedule, width: int) -> None:
    text = picture(s, width)
    if "do not fit" in text:
        assert parse_schedule(text) == s
        return
    assert read(text, s) == expected(s), text


def test_a_binomial_tree() -> None:
    assert picture(build("binomial", "broadcast", 4)).splitlines() == [
        "binomial broadcast: 4 ranks, 1 chunks, root 0",
        "           0       1       2       3",
        "           │       │       │       │",
        "round 0    ●───────┼───0──▶│       │",
        "           │       │       │       │",
        "round 1    ●───0──▶│       ●───0──▶│",
    ]


def test_a_repeated_block_is_drawn_once() -> None:
    assert picture(build("ring", "all_gather", 3)).splitlines()[3:] == [
        "rounds 0 to 1: 2 times, chunk -1",
        "           │       │       │",
        "round 0    ●───0──▶●───1──▶│",
        "           │◀──2───┼───────●",
    ]


def test_too_many_ranks_for_the_page_are_text() -> None:
    s = build("ring", "all_reduce", 64)
    assert picture(s) == f"# 64 columns do not fit a page of 100; as text:\n{s}"


def test_too_many_arrows_for_a_round_are_counted() -> None:
    rows = [(a, b, 9 * a + b) for a in range(9) for b in range(9) if a != b]
    source, target, chunk = zip(*rows, strict=True)
    text = picture(Schedule("dense", "all_reduce", 9, 81, (Block(Transfers.of(source, target, chunk)),)))
    assert "round 0    72 transfers: " in text
