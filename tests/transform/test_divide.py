"""pipeline, channels, share: cut chunks, keep the promise, stay short, and overlap where they promise it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree import algorithms
from ringtree.ir.schedule import Block, Buffer, Schedule, Shift, Transfers
from ringtree.transform import channels, in_place, pipeline, relabel, reverse, share, split
from tests import oracle
from tests.effort import counted
from tests.transform.cases import STRANGE, built, hops, keeps_its_promise, through_scratch


def steps(schedule: Schedule) -> int:
    """How long it takes if a transfer takes 1 and every rank does its part in order, sends of a round first."""
    clock = [0] * schedule.ranks
    arrives: list[tuple[int, int]] = []

    def receive() -> None:
        for target, at in arrives:
            clock[target] = max(clock[target], at)
        arrives.clear()

    now = 0
    for row in oracle.rows(schedule):
        if row.round != now:
            receive()
            now = row.round
        clock[row.source] += row.count
        arrives.append((row.target, clock[row.source]))
    receive()
    return max(clock)


@given(built(), st.integers(1, 4))
def test_pipelined_is_right_and_sends_as_much(schedule: Schedule, pieces: int) -> None:
    cut = pipeline(schedule, pieces)
    assert cut.chunks == schedule.chunks * pieces
    assert np.array_equal(cut.chunks_sent(), schedule.chunks_sent() * pieces)
    keeps_its_promise(cut)


@given(built(), st.integers(1, 4), st.integers(1, 3))
def test_transforms_of_divided_ones_are_right(schedule: Schedule, pieces: int, k: int) -> None:
    keeps_its_promise(channels(pipeline(schedule, pieces), k))
    keeps_its_promise(pipeline(channels(schedule, k), pieces))
    keeps_its_promise(pipeline(pipeline(schedule, k), pieces))


@given(built(), st.integers(1, 4))
def test_channels_keep_the_rounds(schedule: Schedule, k: int) -> None:
    wide = channels(schedule, k)
    assert (wide.chunks, wide.rounds) == (schedule.chunks * k, schedule.rounds)
    assert [(b.times, b.rounds) for b in wide.blocks] == [(b.times, b.rounds) for b in schedule.blocks]
    assert np.array_equal(wide.chunks_sent(), schedule.chunks_sent() * k)
    keeps_its_promise(wide)


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_a_pipelined_chain_is_one_block_repeated_once_per_piece(collective: str) -> None:
    schedule = algorithms.build("chain", collective, 12, 5)
    (block,) = pipeline(schedule, 7).blocks
    assert (block.times, block.shift, len(block.rows)) == (7, Shift.chunk(1), 11)


def test_a_pipelined_tree_is_one_block_repeated_once_per_piece() -> None:
    down = Transfers.of([0, 0, 1, 1, 2, 2], [1, 2, 3, 4, 5, 6], round=[0, 0, 1, 1, 1, 1])
    tree = Schedule("tree", "broadcast", 7, 1, (Block(down),), 0)
    for schedule in (tree, reverse(tree)):
        (block,) = pipeline(schedule, 7).blocks
        assert (block.times, block.shift, len(block.rows)) == (7, Shift.chunk(1), 6)


@pytest.mark.parametrize(("collective", "rounds"), [("broadcast", 4), ("reduce", 4), ("all_reduce", 8)])
def test_two_pipelined_trees_are_skewed(collective: str, rounds: int) -> None:
    schedule = algorithms.build("double_tree", collective, 12)
    assert schedule.rounds == rounds
    begin, middle, end = pipeline(schedule, 20).blocks
    assert (middle.times, middle.shift, middle.rounds, len(middle.rows)) == (
        21 - rounds,
        Shift.chunk(1),
        1,
        22 * rounds // 4,
    )
    assert begin.rounds == end.rounds == rounds - 1
    (short,) = pipeline(schedule, 3).blocks
    assert short.rounds == rounds + 3 - 1


@pytest.mark.parametrize("collective", ["reduce_scatter", "all_gather"])
def test_a_pipelined_ring_is_the_same_rows_more_often(collective: str) -> None:
    (block,) = pipeline(algorithms.build("ring", collective, 5), 3).blocks
    assert (block.times, len(block.rows)) == (4 * 3, 5)


def test_pipelining_overlaps() -> None:
    chain = algorithms.build("chain", "broadcast", 9, 2)
    assert (steps(chain), steps(pipeline(chain, 20))) == (8, 9 - 2 + 20)
    assert steps(pipeline(algorithms.build("chain", "reduce", 9, 2), 20)) == 9 - 2 + 20
    ring = algorithms.build("ring", "all_reduce", 6)
    assert (steps(ring), steps(pipeline(ring, 5))) == (10, 50)  # was full before
    trees = algorithms.build("double_tree", "broadcast", 16, 3)
    assert steps(pipeline(trees, 50)) <= 2 * 50 + 2 * 4  # half a piece to each of two children: S bytes, and the way
    trees = algorithms.build("double_tree", "all_reduce", 16)
    assert steps(pipeline(trees, 50)) <= 4 * 50 + 3 * 4  # up and down at once: 2 S bytes, as the ring


def test_a_chain_of_moving_ranks_overlaps_too() -> None:
    assert hops(5, 2) == algorithms.build("chain", "broadcast", 5, 2)
    assert steps(pipeline(hops(5, 2), 10)) == 5 - 2 + 10


@pytest.mark.parametrize("schedule", STRANGE, ids=lambda s: f"{s.name}{s.ranks}")
def test_strange_ones_are_divided_rightly(schedule: Schedule) -> None:
    keeps_its_promise(schedule)
    keeps_its_promise(pipeline(schedule, 3))
    keeps_its_promise(channels(schedule, 3))
    keeps_its_promise(pipeline(channels(schedule, 2), 2))


@pytest.mark.parametrize("pieces", [1, 8])
def test_a_ring_over_100_000_ranks_is_built_and_counted_without_being_expanded(pieces: int) -> None:
    with counted() as effort:
        ring = pipeline(algorithms.build("ring", "all_reduce", 100_000), pieces)
        count, sent, received = ring.transfers, ring.chunks_sent(), ring.chunks_received()
    assert count == 2 * 99_999 * 100_000 * pieces
    assert set(sent.tolist()) == set(received.tolist()) == {2 * 99_999 * pieces}
    assert sum(getattr(b.rows, c).nbytes for b in ring.blocks for c in ("source", "target", "reduce")) < 10e6
    assert effort.calls < 2000


@pytest.mark.parametrize(("name", "n"), [("chain", 100_000), ("double_tree", 10_000)])
def test_long_chains_and_large_trees_too(name: str, n: int) -> None:
    with counted() as effort:
        schedule = pipeline(algorithms.build(name, "broadcast", n, 7), 1000)
        assert schedule.transfers == (n - 1) * 1000 * (1 if name == "chain" else 2)
        assert schedule.chunks_received().sum() == schedule.transfers
    assert effort.calls < 4 * n  # of a thousand times as many transfers


@given(st.permutations(range(6)), st.permutations(range(6)), st.integers(1, 3))
def test_rings_of_different_orders_share_the_vector(one: list[int], other: list[int], pieces: int) -> None:
    ring = pipeline(algorithms.build("ring", "all_reduce", 6), pieces)
    both = share(relabel(ring, one), relabel(ring, other))
    assert (both.rounds, len(both.blocks)) == (ring.rounds, 2)
    keeps_its_promise(both)


@pytest.mark.parametrize(
    ("collective", "names"),
    [
        ("all_reduce", ("ring", "halving_doubling", "double_tree")),
        ("all_gather", ("ring", "hierarchical")),
        ("broadcast", ("double_tree", "chain", "flat")),
        ("all_reduce", ("one_shot", "two_shot")),
    ],
)
def test_different_algorithms_share_the_vector(collective: str, names: tuple[str, ...]) -> None:
    for n in (1, 2, 6, 7):
        if n > 1 or names[0] != "one_shot":
            keeps_its_promise(share(*(algorithms.build(name, collective, n) for name in names)))


def test_scratch_is_shared_out_too() -> None:
    small, large = (in_place(algorithms.build(name, "all_reduce", 5)) for name in ("one_shot", "two_shot"))
    assert small.scratch != large.scratch
    keeps_its_promise(share(small, large))
    keeps_its_promise(share(small, algorithms.build("ring", "all_reduce", 5)))
    keeps_its_promise(share(through_scratch(3), through_scratch(5)))
    keeps_its_promise(pipeline(large, 3))
    assert Buffer.SCRATCH in pipeline(large, 3).expand().target_buffer


def test_wrong_cuts_are_refused() -> None:
    ring = algorithms.build("ring", "all_reduce", 4)
    with pytest.raises(ValueError, match="ring: cut into 0 pieces; expected at least 1"):
        pipeline(ring, 0)
    with pytest.raises(ValueError, match="ring: cut into -1 channels; expected at least 1"):
        channels(ring, -1)
    with pytest.raises(TypeError, match=r"ring: cut into 1\.5 pieces; expected a whole number"):
        pipeline(ring, 1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"cut into 536,870,912 pieces; expected at most 2,147,483,647 chunks in all"):
        pipeline(ring, 1 << 29)
    with pytest.raises(ValueError, match=r"share\(\) of no schedule"):
        share()
    with pytest.raises(ValueError, match="takes schedules of one collective"):
        share(ring, algorithms.build("ring", "all_reduce", 5))
    with pytest.raises(ValueError, match="in_place=False"):
        share(ring, algorithms.build("one_shot", "all_reduce", 4))


@given(built(), st.integers(1, 4))
def test_split_messages_are_no_longer_and_right(schedule: Schedule, most: int) -> None:
    cut = split(schedule, most)
    assert all(b.rows.count.max(initial=0) <= most for b in cut.blocks)
    assert (cut.rounds, cut.chunks) == (schedule.rounds, schedule.chunks)
    assert np.array_equal(cut.chunks_sent(), schedule.chunks_sent())
    keeps_its_promise(cut)
