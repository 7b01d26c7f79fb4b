"""The trees that are found are those along which chunks flow; where there are none, none are made up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.algorithms import build
from ringtree.draw.trees import ABSENT, ROOT, ChunkTree, few, trees
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.ir.text import parse_schedule
from ringtree.transform import many_source, pipeline, reverse

HEAP = (ROOT, 0, 0, 1, 1, 2, 2)
PATH = (ROOT, 0, 1, 2)
STAR = (ROOT, 0, 0, 0)


@pytest.mark.parametrize(
    ("algorithm", "collective", "ranks", "expected"),
    [
        ("binary_tree", "all_reduce", 7, [ChunkTree(HEAP, (0,), True), ChunkTree(HEAP, (0,), False)]),
        ("chain", "broadcast", 4, [ChunkTree(PATH, (0,), False)]),
        ("chain", "scan", 4, [ChunkTree((1, 2, 3, ROOT), (0,), True)]),
        ("flat", "gather", 4, [ChunkTree(STAR, (1, 2, 3), True)]),
        ("flat", "scatter", 4, [ChunkTree(STAR, (1, 2, 3), False)]),
        ("parameter_server", "all_reduce", 4, [ChunkTree(STAR, (0,), True), ChunkTree(STAR, (0,), False)]),
        (
            "double_tree",
            "reduce",
            8,
            [ChunkTree((ROOT, 2, 4, 2, 0, 6, 4, 6), (0,), True), ChunkTree((ROOT, 7, 3, 5, 3, 0, 7, 5), (1,), True)],
        ),
        ("ring", "all_gather", 3, [ChunkTree((ROOT, 0, 1), (0,), False), ChunkTree((2, ROOT, 1), (1,), False),
                                   ChunkTree((2, 0, ROOT), (2,), False)]),
        ("recursive_doubling", "all_reduce", 5, []),
        ("dissemination", "barrier", 4, []),
        ("pairwise", "all_to_all", 4, []),
        ("ring", "all_reduce", 1, []),
    ],
)  # fmt: skip
def test_chunks_flow_along(algorithm: str, collective: str, ranks: int, expected: list[ChunkTree]) -> None:
    assert list(trees(build(algorithm, collective, ranks))) == expected


def test_few_are_worth_drawing_and_a_path_for_each_chunk_is_not() -> None:
    for name, is_so in (("double_tree", True), ("binary_tree", True), ("ring", False), ("recursive_doubling", False)):
        assert few(trees(build(name, "all_reduce", 8))) is is_so, name


def test_a_pipelined_tree_is_one_tree() -> None:
    plain = build("double_tree", "all_reduce", 8)
    cut = trees(pipeline(plain, 64))
    assert [(t.parent, t.upward) for t in cut] == [(t.parent, t.upward) for t in trees(plain)]
    assert [t.chunks for t in cut] == 2 * [tuple(range(64)), tuple(range(64, 128))]


def test_other_buffers_are_followed_too() -> None:
    """Sums that are formed by copies in scratch, which no transfer between ranks adds up."""
    flat = build("flat", "reduce", 4)
    assert trees(many_source(flat)) == trees(flat)
    text = """schedule mine all_reduce: 3 ranks, 1 chunks, 2 scratch
once: 1 input[0] -> 0 scratch[0]; 2 input[0] -> 0 scratch[1]; 0 input[0] -> 0 output[0]
once: 0 scratch[0] +> 0 output[0]
once: 0 scratch[1] +> 0 output[0]
once: 0 output[0] -> 1; 0 output[0] -> 2"""
    star = (ROOT, 0, 0)
    assert trees(parse_schedule(text)) == (ChunkTree(star, (0,), True), ChunkTree(star, (0,), False))


def test_a_rank_that_is_not_reached_is_absent() -> None:
    s = Schedule("part", "broadcast", 3, 1, (Block(Transfers.of(0, 2)),), root=0)
    assert trees(s) == (ChunkTree((ROOT, ABSENT, 0), (0,), False),)


def test_a_repeated_delivery_is_no_tree() -> None:
    twice = Transfers.of([0, 0, 1], [1, 2, 2], round=[0, 0, 1])
    assert trees(Schedule("twice", "broadcast", 3, 1, (Block(twice),), root=0)) == ()


@given(st.data())
def test_any_tree_is_found(data: st.DataObject) -> None:
    """A broadcast down a random tree, and the reduction up it."""
    ranks = data.draw(st.integers(2, 12))
    names = data.draw(st.permutations(range(ranks)))
    above = [data.draw(st.integers(0, k - 1)) for k in range(1, ranks)]
    source, target = (np.array([names[k] for k in ends]) for ends in (above, range(1, ranks)))
    rows = Transfers.of(source, target, round=np.arange(ranks - 1))
    down = Schedule("random", "broadcast", ranks, 1, (Block(rows),), root=names[0])
    parent = [ROOT] * ranks
    for a, b in zip(source.tolist(), target.tolist(), strict=True):
        parent[b] = a
    assert trees(down) == (ChunkTree(tuple(parent), (0,), False),)
    assert trees(reverse(down)) == (ChunkTree(tuple(parent), (0,), True),)
