"""pipeline, channels, share: cut chunks, keep the promise, stay short, and overlap where they say so."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree import algorithms
from ringtree.ir.schedule import Buffer, Schedule, Shift
from ringtree.transform import channels, pipeline, relabel, share
from tests import oracle
from tests.transform.cases import built, keeps_its_promise


def steps(schedule: Schedule) -> int:
    """How long it takes if a transfer takes 1, a rank sends one at a time as listed, and nothing else orders."""
    written: dict[tuple[int, int, int], int] = {}
    read: dict[tuple[int, int, int], int] = {}
    free = [0] * schedule.ranks
    for row in oracle.rows(schedule):
        for i in range(row.count):
            source = (row.source, row.source_buffer, row.source_chunk + i)
            target = (row.target, row.target_buffer, row.target_chunk + i)
            start = max(written.get(source, 0), written.get(target, 0), read.get(target, 0), free[row.source])
            written[target] = free[row.source] = start + 1
            read[source] = max(read.get(source, 0), start + 1)
    return max(written.values(), default=0)


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
@pytest.mark.parametrize("name", ["ring", "double_tree", "hierarchical"])
def test_a_pipelined_chain_or_tree_is_one_block_repeated_once_per_piece(name: str, collective: str) -> None:
    schedule = algorithms.build(name, collective, 12, 5)
    (block,) = pipeline(schedule, 7).blocks
    assert (block.times, block.shift) == (7, Shift.chunk(1))
    assert len(block.rows) == sum(b.rows.count.sum() for b in schedule.blocks)


@pytest.mark.parametrize("collective", ["reduce_scatter", "all_gather"])
def test_a_pipelined_ring_is_the_same_rows_more_often(collective: str) -> None:
    (block,) = pipeline(algorithms.build("ring", collective, 5), 3).blocks
    assert (block.times, len(block.rows)) == (4 * 3, 5)


def test_pipelining_overlaps() -> None:
    chain = algorithms.build("ring", "broadcast", 9, 2)
    assert (steps(chain), steps(pipeline(chain, 20))) == (8, 9 - 2 + 20)
    assert steps(pipeline(algorithms.build("ring", "reduce", 9, 2), 20)) == 9 - 2 + 20
    ring = algorithms.build("ring", "all_reduce", 6)
    assert (steps(ring), steps(pipeline(ring, 5))) == (10, 50)  # was full before
    tree = algorithms.build("double_tree", "broadcast", 16, 3)
    assert steps(pipeline(tree, 50)) < 1.2 * 2 * 50  # the root sends 2 * 50 chunks: at its bandwidth, near enough


def test_a_chain_of_moving_ranks_overlaps_too() -> None:
    hop = algorithms.build("ring", "broadcast", 5, 0).blocks[0]
    moving = Schedule("hops", "broadcast", 5, 1, (type(hop)(hop.rows.take(slice(1)), 4, Shift(1, 1)),), 0)
    assert moving == algorithms.build("ring", "broadcast", 5, 0)
    assert steps(pipeline(moving, 10)) == 5 - 2 + 10


@pytest.mark.parametrize("pieces", [1, 8])
def test_a_ring_over_100_000_ranks_is_built_and_counted_in_a_second(pieces: int) -> None:
    start = time.perf_counter()
    ring = pipeline(algorithms.build("ring", "all_reduce", 100_000), pieces)
    count, sent, received = ring.transfers, ring.chunks_sent(), ring.chunks_received()
    took = time.perf_counter() - start
    assert count == 2 * 99_999 * 100_000 * pieces
    assert set(sent.tolist()) == set(received.tolist()) == {2 * 99_999 * pieces}
    assert sum(getattr(b.rows, c).nbytes for b in ring.blocks for c in ("source", "target", "reduce")) < 10e6
    assert took < 1.0


@pytest.mark.parametrize("name", ["ring", "double_tree"])
def test_a_chain_and_a_tree_over_100_000_ranks_too(name: str) -> None:
    start = time.perf_counter()
    schedule = pipeline(algorithms.build(name, "broadcast", 100_000, 7), 1000)
    assert schedule.transfers == 99_999 * 1000 * (1 if name == "ring" else 2)
    assert schedule.chunks_received().sum() == schedule.transfers
    assert time.perf_counter() - start < 1.0


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
        ("broadcast", ("double_tree", "ring", "one_shot")),
        ("all_reduce", ("one_shot", "two_shot")),
    ],
)
def test_different_algorithms_share_the_vector(collective: str, names: tuple[str, ...]) -> None:
    for n in (1, 2, 6, 7):
        if n > 1 or names[0] != "one_shot":
            keeps_its_promise(share(*(algorithms.build(name, collective, n) for name in names)))


def test_scratch_is_shared_out_too() -> None:
    from ringtree.transform import in_place

    small, large = (in_place(algorithms.build(name, "all_reduce", 5)) for name in ("one_shot", "two_shot"))
    assert small.scratch != large.scratch
    keeps_its_promise(share(small, large))
    keeps_its_promise(pipeline(large, 3))
    assert Buffer.SCRATCH in pipeline(large, 3).expand().target_buffer


def test_what_cannot_be_divided_is_refused() -> None:
    ring = algorithms.build("ring", "all_reduce", 4)
    with pytest.raises(ValueError, match="ring: cut into 0 pieces; expected at least 1"):
        pipeline(ring, 0)
    with pytest.raises(ValueError, match="ring: cut into -1 channels; expected at least 1"):
        channels(ring, -1)
    with pytest.raises(ValueError, match="takes schedules of one collective"):
        share(ring, algorithms.build("ring", "all_reduce", 5))
    with pytest.raises(ValueError, match="in_place=False"):
        share(ring, algorithms.build("one_shot", "all_reduce", 4))
