"""Any even schedule of blocks, bound to blocks of any sizes: the moved data is that of the collective."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ringtree.algorithms import pairs
from ringtree.ir.collective import COLLECTIVES, REDUCED, Collective
from ringtree.runtime.arrays import readable, writable
from ringtree.runtime.communicator.calls.binding import bind, built, chunk_sizes, slots_needed_by
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.types import Dtype, op_code
from tests.runtime.conftest import Pools

Ints = NDArray[np.int64]
FOR_BLOCKS = [(algorithm, collective) for algorithm, collective in pairs() if COLLECTIVES[collective].blocked]


def values(origin: int, labels: Ints, sizes: Ints) -> Ints:
    """Values of `origin` in the chunks of those labels."""
    starts = np.cumsum(sizes) - sizes
    runs = [np.arange(starts[k], starts[k] + sizes[k]) for k in labels.tolist()]
    return np.concatenate([np.empty(0, np.int64), *runs]) + origin * 1_000_003


def wanted(promise: Collective, where: tuple[int, int, int, int], sizes: Ints) -> Ints:
    _, _, origins = promise.promised(*where)
    parts = [np.empty(0, np.int64)]
    for label, origin in zip(promise.postcondition_labels(*where), origins.tolist(), strict=True):
        whose = promise.contributors(*where[:2]) if origin == REDUCED else [origin]
        parts.append(np.sum([values(o, np.array([label]), sizes) for o in whose], axis=0))
    return np.concatenate(parts)


def drawn(promise: Collective, ranks: int, seed: int) -> Ints:
    """Elements of each block: some are empty, one is longer than a window."""
    random = np.random.default_rng(seed)
    counts = random.integers(0, 50, (ranks, ranks) if promise.transposes else ranks) * random.integers(0, 2, ranks)
    counts.flat[seed % counts.size] = [1, 0, 200_000][seed % 3]
    return counts


def run_all(comm: Communicator, seed: int) -> list[str]:
    joined, me, n = comm._calls._joined, comm.rank, comm.size
    wrong = []
    for algorithm, collective in FOR_BLOCKS:
        promise = COLLECTIVES[collective]
        root = n - 1 if promise.rooted else -1
        if slots_needed_by(algorithm, collective, n, root) > joined.slots:
            continue
        part = built(algorithm, collective, n, root, me)
        counts = drawn(promise, n, seed)
        total = int(counts.sum())
        op = op_code("sum", Dtype.INT64) if promise.reduces else -1
        bound = bind(joined, part, me, Dtype.INT64, op, total, "a test asks", counts)
        sizes, where = chunk_sizes(part.program, total, counts), (me, n, part.program.chunks, max(root, 0))
        x = values(me, promise.precondition_labels(*where), sizes)
        want = wanted(promise, where, sizes)
        y = np.full_like(want, -1)
        joined.endpoint.run(bound.plan, readable(x).address, writable(y).address)
        if not np.array_equal(y, want):
            wrong.append(f"{algorithm} {collective}, rank {me} of {n}, blocks of {counts.tolist()}")
    return wrong


@pytest.mark.parametrize(
    ("ranks", "seeds"), [(1, 1), (3, 2), *(pytest.param(n, 3, marks=pytest.mark.slow) for n in (2, 5, 8))]
)
def test_blocks_of_any_sizes(pools: Pools, engine: str, ranks: int, seeds: int) -> None:
    for seed in range(3 - seeds, 3):  # the last has the longest block
        assert [line for lines in pools(engine, ranks).run(run_all, seed) for line in lines] == []


def test_sizes_of_blocks_are_cut_evenly() -> None:
    program = built("ring", "all_gather", 3, -1, 0).program
    assert chunk_sizes(program, 9, np.array([4, 0, 5])).tolist() == [4, 0, 5]
    between = built("pairwise", "all_to_all", 2, -1, 0).program
    assert chunk_sizes(between, 10, np.array([[1, 2], [3, 4]])).tolist() == [1, 2, 3, 4]
    assert chunk_sizes(between, 10).tolist() == [5, 5, 5, 5]


def test_counts_that_do_not_fit_are_refused() -> None:
    program = built("ring", "all_gather", 3, -1, 0).program
    for counts in ([4, 5], [[4, 5, 0]], [4, 5, 1], [5, 5, -1]):
        with pytest.raises(ValueError, match=r"all_gather of 9 elements: expected their counts as \(3,\), got"):
            chunk_sizes(program, 9, np.array(counts))
    with pytest.raises(ValueError, match=r"all_reduce of 9 elements: expected their counts as \(\), got"):
        chunk_sizes(built("ring", "all_reduce", 3, -1, 0).program, 9, np.array([3, 3, 3]))
