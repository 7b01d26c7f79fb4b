"""Whom a leader over hosts waits for: every state of the others, in every order of its question and what happens."""

from __future__ import annotations

from itertools import combinations, product
from math import inf

import pytest

from ringtree.runtime.bootstrap.network.post import ATTENDS, AWAY, LEADS, LEFT, MAKES, Answer, Correspondent
from ringtree.runtime.communicator.membership.awaited import awaited, gives_way

UNTIL_S = 10.0
WANTING = (ATTENDS, LEADS, MAKES)
LOST = (Correspondent.ENDED, Correspondent.SILENT, LEFT)
TIMES_S = (0.0, 5.0, 10.0, 15.0)


def waits(state: str, asked_s: float, closed_s: float = inf) -> bool:
    return awaited({3: Answer(state, asked_s)}, {} if closed_s == inf else {3: closed_s}, UNTIL_S) == {3}


@pytest.mark.parametrize("asked_s, closed_s", list(product(TIMES_S, (*TIMES_S, inf))))
def test_who_wants_to_go_on_is_awaited_whatever_the_time(asked_s: float, closed_s: float) -> None:
    assert all(waits(state, asked_s, closed_s) for state in (*WANTING, Correspondent.UNKNOWN))
    assert not any(waits(state, asked_s, closed_s) for state in LOST)


def test_who_does_nothing_is_awaited_until_it_is_asked_after_the_time_is_up() -> None:
    assert [waits(AWAY, asked_s) for asked_s in TIMES_S] == [True, True, True, False]


def test_an_answer_of_before_a_rank_closed_the_group_proves_nothing() -> None:
    """It may have called shrink, and gone on, in between."""
    assert [waits(AWAY, asked_s, closed_s=5.0) for asked_s in TIMES_S] == [True, True, False, False]


def test_each_is_judged_by_itself() -> None:
    silent = Answer(Correspondent.SILENT, 3.0)
    answers = {1: Answer(AWAY, 11.0), 2: Answer(ATTENDS, 1.0), 4: silent, 5: Answer(AWAY, 9.0)}
    assert awaited(answers, {}, UNTIL_S) == {2, 5}
    assert awaited(answers, {5: 8.0}, UNTIL_S) == {2}


@pytest.mark.parametrize("ranks", range(2, 8))
def test_of_two_sides_that_are_silent_to_each_other_one_goes_on(ranks: int) -> None:
    everybody = {*range(ranks)}
    for size in range(1, ranks):
        for side in map(set, combinations(range(ranks), size)):
            assert gives_way(side, everybody - side) != gives_way(everybody - side, side)
    assert not gives_way(everybody, set())


@pytest.mark.parametrize("ranks", range(3, 7))
def test_of_any_sides_at_most_one_goes_on(ranks: int) -> None:
    """A network may fall into more than two: each counts all others as silent."""
    for sides in product(range(ranks), repeat=ranks):
        parts = [{rank for rank in range(ranks) if sides[rank] == side} for side in {*sides}]
        assert sum(not gives_way(part, {*range(ranks)} - part) for part in parts) <= 1
