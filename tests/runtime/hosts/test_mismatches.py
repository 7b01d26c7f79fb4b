"""A mismatched call is reported to every rank of every host: at the latest when it closes the group."""

from __future__ import annotations

from functools import partial

import pytest

from tests.runtime.faults.mismatches import play_all
from tests.runtime.faults.test_mismatches import wrongly_heard
from tests.runtime.hosts.conftest import Ranks


@pytest.mark.parametrize("layout", [(1, 1), (2, 1, 1)])
def test_every_rank_hears_of_a_mismatch(ranks: Ranks, layout: tuple[int, ...]) -> None:
    outcomes = ranks(layout, partial(play_all, check=False)).finish()
    assert not any(outcome.failed for _, outcome in outcomes), [outcome.story for _, outcome in outcomes]
    wrong = wrongly_heard([outcome.result for _, outcome in sorted(outcomes, key=lambda each: each[0])], False, True)
    assert not wrong, "\n".join(wrong)
