"""The schedule that was cut for a size runs: digests are equal, and the sums are right."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.algorithms import build
from ringtree.ir.lower import lower_rank
from ringtree.plan import steps_for
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import in_threads
from tests.runtime.cases import Case, run
from tests.runtime.conftest import Pools

CUT = [
    ("chain", "broadcast"),
    ("chain", "reduce"),
    ("double_tree", "all_reduce"),
    ("split_tree", "all_reduce"),
    ("circulant_broadcast", "reduce"),
    ("ring", "all_reduce"),
    ("binomial", "reduce"),
]


def call(comm: Communicator, algorithm: str, collective: str, count: int) -> tuple[str, str, str, int]:
    for in_place in (False, True):
        run(comm, Case(collective, algorithm, "float64", "sum", count, in_place))
    bound = comm.chosen(collective, count, np.float64, algorithm=algorithm)
    root = None if collective == "all_reduce" else 0
    steps = steps_for(algorithm, collective, comm.size, root, count * 8, comm._calls.selection.where())
    want = lower_rank(steps.apply(algorithm, collective, comm.size, root), comm.rank)
    return bound.part.program.digest(), want.digest(), bound.why, bool(steps)


@pytest.mark.parametrize(("algorithm", "collective"), CUT)
def test_the_cut_schedule_runs(pools: Pools, engine: str, algorithm: str, collective: str) -> None:
    count = 5_003 if in_threads(engine) else 100_003
    if algorithm == "ring":
        count *= 3
    for ran, want, why, cut in pools(engine, 3).run(call, algorithm, collective, count):
        assert ran == want
        assert cut and "; for its size: " in why
    for ran, want, why, cut in pools(engine, 3).run(call, algorithm, collective, 3):
        assert ran == want
        assert "pieces=1" in why if algorithm == "circulant_broadcast" else not cut and "size" not in why


def same(comm: Communicator) -> tuple[bytes, bytes]:
    x = np.random.default_rng(comm.rank).standard_normal(50_000)
    plain = comm.all_reduce(x, algorithm=build("double_tree", "all_reduce", comm.size))
    return comm.all_reduce(x, algorithm="double_tree").tobytes(), plain.tobytes()


def test_pieces_add_up_in_the_same_order(pools: Pools, engine: str) -> None:
    for cut, plain in pools(engine, 5).run(same):
        assert cut == plain
