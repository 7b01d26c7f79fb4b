"""The view round by round is right: every cell is read back and compared with a naive play of the schedule."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from ringtree.algorithms import build, pairs
from ringtree.draw.text.labels import ranks, spread
from ringtree.draw.text.lines import plain
from ringtree.draw.text.rounds import rounds
from ringtree.draw.text.sends import sends
from ringtree.ir.collective import collective
from ringtree.ir.schedule import Block, Schedule, Shift, Transfers
from ringtree.ir.text import parse_schedule
from ringtree.transform import pipeline
from tests import oracle
from tests.oracle import DATA, INPUT, OUTPUT, SCRATCH

Value = tuple[int, frozenset[int]]  # label, origins
Golden = Callable[[str, str], None]

GOLDENS = {
    "ring-4": ("ring", "all_reduce", 4, None),
    "ring-16": ("ring", "all_reduce", 16, None),
    "ring-64": ("ring", "all_gather", 64, None),
    "double_tree-8": ("double_tree", "all_reduce", 8, None),
    "split_tree-64": ("split_tree", "all_reduce", 64, None),
    "halving_doubling-6": ("halving_doubling", "reduce_scatter", 6, None),
    "bruck-5": ("bruck", "all_to_all", 5, None),
    "binomial-6-from-2": ("binomial", "scatter", 6, 2),
    "dissemination-17": ("dissemination", "barrier", 17, None),
    "inorder_tree-5": ("inorder_tree", "scan", 5, None),
    "one-rank": ("ring", "all_reduce", 1, None),
}


@pytest.mark.parametrize("name", GOLDENS)
def test_the_view_is_as_it_was_looked_at(name: str, golden: Golden) -> None:
    golden(f"views/{name}.txt", plain(rounds(build(*GOLDENS[name]))))


def test_a_pipelined_schedule_joins_equal_chunks(golden: Golden) -> None:
    golden("views/chain-pipelined.txt", plain(rounds(pipeline(build("chain", "broadcast", 6), 200), 80)))


@pytest.mark.parametrize("ranks_", [1, 5, *(pytest.param(n, marks=pytest.mark.slow) for n in (8, 12))])
def test_every_cell_shows_its_contents(ranks_: int) -> None:
    read = 0
    for algorithm, name in pairs():
        s = build(algorithm, name, ranks_, ranks_ - 1 if collective(name).rooted else None)
        text = plain(rounds(s, 1000))
        assert text.endswith(f"postcondition of {name} holds on every rank"), f"{algorithm} {name}"
        after = list(played(s))
        for number, rank, cells in grid(text):
            for head, cell in cells.items():
                for nth, (buffer, chunk) in enumerate(positions(s, head)):
                    there = after[number + 1].get((rank, buffer, chunk))
                    there = counted(there) if "/" in cell and there else there
                    assert value(s, cell, nth, buffer, chunk, rank) == there, (
                        f"{algorithm} {name} {number} {rank} {head}"
                    )
                    read += 1
    assert read > 50


def positions(s: Schedule, head: str) -> Iterator[tuple[int, int]]:
    """The (buffer, chunk) that a column stands for."""
    if head == "…":
        return
    first, _, stop = head.lstrip("s").partition(":")
    for chunk in range(int(first), int(stop or int(first) + 1)):
        yield SCRATCH if head[0] == "s" else DATA if s.in_place else OUTPUT, chunk


def played(s: Schedule) -> Iterator[dict[tuple[int, int, int], Value]]:
    """(rank, buffer, chunk) -> what is there: at the start, then after each round."""
    held = {r: s.promise.precondition(r, s.ranks, s.chunks, s.root or 0) for r in range(s.ranks)}
    buffer = DATA if s.in_place else INPUT
    there: dict[tuple[int, int, int], Value] = {
        (r, buffer, p if s.in_place else p - window.start): (p, frozenset([r]))
        for r, window in held.items()
        for p in window
    }
    yield dict(there)
    by_round: list[list[oracle.Row]] = [[] for _ in range(s.rounds)]
    for row in oracle.rows(s):
        by_round[row.round].append(row)
    for listed in by_round:
        before = dict(there)
        for row in listed:
            for i in range(row.count):
                label, origins = before[row.source, row.source_buffer, row.source_chunk + i]
                target = (row.target, row.target_buffer, row.target_chunk + i)
                already = there[target][1] if row.reduce else frozenset[int]()
                there[target] = (label, origins | already)
        yield dict(there)


def grid(text: str) -> Iterator[tuple[int, int, dict[str, str]]]:
    """(round, rank, cells by their heads) of every row; the start is round -1. A cell ends below its head's end."""
    number, ends = -1, dict[int, str]()
    for line in text.splitlines():
        if title := re.match(r"round (\d+)", line):
            number = int(title[1])
        left, bar, right = line.partition(" │")
        if bar and "rank" in left:
            ends = {m.end(): m[0] for m in re.finditer(r"\S+", right)}
        elif bar and ends and (row := re.match(r"\s*(\d+)", left)):
            yield number, int(row[1]), {ends[m.end()]: m[0] for m in re.finditer(r"[^\s*]+", right)}


def counted(there: Value) -> Value:
    """The value with the number of its contributing ranks only."""
    return there[0], frozenset(range(-len(there[1]), 0))


def value(s: Schedule, cell: str, nth: int, buffer: int, at: int, rank: int) -> Value | None:
    """A cell read by the legend, for the `nth` chunk that it stands for."""
    if cell == "·":
        return None
    contributors, _, chunk = cell.partition(".")
    start = s.promise.postcondition(rank, s.ranks, s.chunks, s.root or 0).start if buffer == OUTPUT else 0
    label = int(chunk.partition(":")[0]) + nth if chunk else 0 if buffer == SCRATCH else start + at
    if contributors == "all":
        return label, frozenset(range(s.ranks))
    if "/" in contributors:  # a count: the view does not show which ranks
        return counted((label, frozenset(range(int(contributors.partition("/")[0])))))
    if s.ranks <= 10 and "-" not in contributors and "," not in contributors:
        return label, frozenset(map(int, contributors))
    found = set[int]()
    for part in contributors.split(","):
        first, _, last = part.partition("-")
        stop = int(last or first)
        found |= {r % s.ranks for r in range(int(first), stop + 1 + s.ranks * (stop < int(first)))}
    return label, frozenset(found)


def test_chunks_in_a_row_of_one_rank_are_joined_and_of_two_not() -> None:
    text = plain(
        rounds(
            parse_schedule("""schedule x all_to_all: 4 ranks, 4 chunks, 20 scratch
once: 0 input[0:3] -> 0 scratch[0]; 0 input[3] -> 1 scratch[3]; 1 input[0:4] -> 1 scratch[4]"""),
            200,
        )
    )
    after = text[text.index("round 0") :].splitlines()
    assert after[0].split("│")[1].split() == ["0:4", "s0:3", "s3", "s4:8", "s8:20"]
    assert after[1].split("│")[1].split() == ["·", "*0.0:3", "·", "·", "·"]
    assert after[2].split("│")[1].split() == ["·", "·", "*0.3", "*1.0:4", "·"]


def test_a_wrong_schedule_is_not_called_done() -> None:
    s = build("ring", "all_gather", 4)
    short = replace(s, blocks=(replace(s.blocks[0], times=2),))
    assert plain(rounds(short)).endswith(
        "NOT DONE: rank 0 violates the postcondition of all_gather in chunk 1 and in 3 other chunks"
    )
    spoiled = parse_schedule("schedule x reduce: 2 ranks, 2 chunks, root 0\nonce: 1 data[0] +> 0 data[1]")
    assert "✗" in plain(rounds(spoiled))


@pytest.mark.parametrize(("ranks_", "width"), [(16, 100), (64, 100), (200, 120), (64, 60)])
def test_it_keeps_to_the_page(ranks_: int, width: int) -> None:
    """Every rank, chunk and round of few; of many no more than can be read."""
    for algorithm in ("ring", "double_tree", "halving_doubling", "one_shot"):
        lines = plain(rounds(build(algorithm, "all_reduce", ranks_), width)).splitlines()
        assert max(len(line) for line in lines if "│" in line) <= width and len(lines) < 460, algorithm
        shown = {int(m[1]) for line in lines if (m := re.match(r"^ *(\d+) .*│", line))}
        assert (shown == set(range(16))) if ranks_ == 16 else {0, ranks_ - 1} <= shown
        assert any(f"ranks 5 to {ranks_ // 2 - 3}" in line for line in lines) is (ranks_ > 16)


def test_repeats_are_shown_once_and_counted() -> None:
    text = plain(rounds(build("ring", "all_reduce", 8)))
    assert [int(m) for m in re.findall(r"^round (\d+)", text, re.M)] == [0, 1, 6, 7, 8, 13]
    assert "rounds 2 to 5: the same, chunk -1 each time" in text
    chain = plain(rounds(pipeline(build("chain", "broadcast", 4), 32)))
    assert re.search(r"rounds \d+ to \d+: the same", chain)
    written_out = Schedule("x", "all_reduce", 8, 8, tuple(
        Block(replace(b.rows, source_chunk=(b.rows.source_chunk - i) % 8, target_chunk=(b.rows.target_chunk - i) % 8))
        for b in build("ring", "all_reduce", 8).blocks for i in range(b.times)
    ))  # fmt: skip
    joined = replace(written_out, blocks=(Block(written_out.expand()),))
    assert plain(rounds(joined)).splitlines()[1:] == text.splitlines()[1:]


def test_a_schedule_too_large_for_the_view_is_named() -> None:
    block = Block(Transfers.of(0, 1), 1 << 21, Shift())
    assert "too large for this view: 2,097,152 transfers" in plain(
        rounds(Schedule("long", "broadcast", 2, 1, (block,), root=0))
    )


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("0 data[3] +> 1", "3 +> 1"),
        ("0 data[0] -> 1; 0 data[1] -> 1", "0:2 -> 1"),
        ("0 data[2] -> 1; 0 data[2] -> 2; 0 data[2] -> 4", "2 -> 1,2,4"),
        ("0 data[2] -> k for k=1..5", "2 -> all others"),
        ("0 data[k] -> k for k=1..5", "1 -> 1, 2 -> 2 … 5 -> 5"),
        ("0 data[0] -> 1 data[4]", "0 -> 1[4]"),
        ("0 data[0:2] -> 1 scratch[0]", "0:2 -> 1[s0:2]"),
        ("0 data[0] -> 1; 0 data[2] +> 5; 0 data[4] -> 3 data[1]; 0 data[1] +> 2", "0 -> 1, 4 -> 3[1], 2 more"),
    ],
)
def test_sends_in_a_few_words(rows: str, expected: str) -> None:
    s = parse_schedule(f"schedule x broadcast: 6 ranks, 6 chunks, root 0, 2 scratch\nonce: {rows}")
    assert sends(s.expand(), 6, 24) == {0: expected}


def test_sets_of_ranks() -> None:
    assert [ranks(x, 16) for x in (range(16), [3], [3, 4], [2, 3, 4], [0, 1, 14, 15], [0, 2, 4, 6, 8])] == [
        "all", "3", "3,4", "2-4", "14-1", "5/16",
    ]  # fmt: skip
    assert [ranks(x, 8) for x in ([0, 3], [0, 2, 4, 6], [0, 1, 2, 3, 4])] == ["03", "0246", "0-4"]


def test_a_spread_has_the_first_some_in_the_middle_and_the_last() -> None:
    for total in range(80):
        for room in (3, 4, 8, 16):
            got = spread(total, room)
            assert got == sorted(set(got)) and len(got) <= max(room, 5)
            assert total == 0 or (got[0], got[-1]) == (0, total - 1)
            assert not any(b - a == 2 for a, b in pairwise(got))
