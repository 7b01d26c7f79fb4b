"""A mismatched call is reported to every rank of every host: at the latest when it closes the group."""

from __future__ import annotations

import os
from functools import partial

import numpy as np
import pytest

from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.faults.mismatches import play_all
from tests.runtime.faults.test_mismatches import wrongly_heard
from tests.runtime.hosts.conftest import Ranks


@pytest.mark.parametrize("layout", [(1, 1), (2, 1, 1)])
def test_every_rank_hears_of_a_mismatch(ranks: Ranks, layout: tuple[int, ...]) -> None:
    outcomes = ranks(layout, partial(play_all, check=False)).finish()
    assert not any(outcome.failed for _, outcome in outcomes), [outcome.story for _, outcome in outcomes]
    wrong = wrongly_heard([outcome.result for _, outcome in sorted(outcomes, key=lambda each: each[0])], False, True)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("layout", [(2, 2), (3, 1)])
def test_where_one_rank_asks_for_it_all_compare(ranks: Ranks, layout: tuple[int, ...]) -> None:
    def rank(comm: Communicator) -> bool:
        os.environ["RINGTREE_CHECK"] = str(int(comm.rank == comm.size - 1))
        with comm.duplicate() as group:
            return float(group.all_reduce(np.ones(3))[0]) == comm.size

    assert [outcome.result for _, outcome in ranks(layout, rank).finish()] == [True] * sum(layout)
