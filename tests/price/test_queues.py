"""Queues of links: first come, first served, though rounds are played in their order."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

from ringtree.price.queues import GAPS, INSTANT_S, STATE, HopQueue

Served = list[tuple[float, float]]


def served(*rounds: list[tuple[float, float]], links: int = 1, least_s: float = 0.0) -> tuple[Served, list[float]]:
    """When a link begins and ends with each message, (came, lasts), of rounds in this order; and its state then."""
    clock_s, found = np.zeros(links * STATE), list[tuple[float, float]]()
    for messages in rounds:
        came_s, lasts_s = (np.array(column) for column in zip(*messages, strict=True))
        done_s = np.zeros(len(came_s))
        HopQueue(np.arange(len(came_s)), np.zeros(len(came_s), np.int64), lasts_s).serve(
            clock_s, came_s, done_s, least_s
        )
        found += zip(came_s.tolist(), done_s.tolist(), strict=True)
    return found, clock_s.tolist()


def test_messages_of_a_round_are_served_as_they_come() -> None:
    assert served([(3, 4), (0, 2), (1, 2)])[0] == [(4, 8), (0, 2), (2, 4)]


def test_a_message_of_a_later_round_that_comes_first_is_served_first() -> None:
    found, state = served([(10, 2)], [(3, 4)])
    assert found == [(10, 12), (3, 7)] and state[0] == 12
    assert state[1:5] == [0, 3, 7, 10] and set(state[5:]) == {12}


def test_what_no_gap_has_room_for_follows_after_the_others() -> None:
    found, state = served([(10, 2)], [(3, 4)], [(2, 5)])  # 1 s before, 3 s behind the second, and 1 s at the end
    assert found[2] == (2, 13) and state[0] == 13
    assert state[1:3] == [0, 2]


def test_gaps_that_no_message_can_reach_are_forgotten() -> None:
    assert served([(10, 2)], [(20, 2)], least_s=11)[1][1:4] == [12, 20, 22]


def test_messages_at_the_same_instant_keep_their_order_whatever_the_rounding() -> None:
    assert served([(1 + INSTANT_S / 10, 2), (1, 2)])[0][0] == pytest.approx((1, 3))


@pytest.mark.parametrize("seed", range(5))
def test_a_link_serves_every_byte_once_and_is_idle_only_in_its_gaps(seed: int) -> None:
    random = np.random.default_rng(seed)
    rounds = [[(random.uniform(0, 50), random.uniform(0.1, 3)) for _ in range(3)] for _ in range(GAPS // 3)]
    found, state = served(*rounds)
    lasts_s = [lasts for messages in rounds for _, lasts in messages]
    idle_s = sum(np.diff(state[1:])[::2])
    assert state[0] == pytest.approx(sum(lasts_s) + idle_s)
    for (begin_s, end_s), (came_s, least_s) in zip(found, chain.from_iterable(rounds), strict=True):
        assert begin_s >= came_s and end_s - begin_s >= least_s - 1e-9


def test_many_messages_at_a_time_are_served_alike() -> None:
    random = np.random.default_rng(1)
    rows, links = random.permutation(90), random.integers(0, 4, 90) * STATE
    came_s, lasts_s = random.uniform(0, 9, 90), random.uniform(0.01, 0.3, 90)
    found = []
    for fills_gaps in (True, False):
        queue = HopQueue(rows, links, lasts_s)
        queue.fills_gaps = fills_gaps
        state = np.zeros(4 * STATE), came_s.copy(), np.zeros(90)
        queue.serve(*state, 0.0)
        found.append((state[0][::STATE], *state[1:]))
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two)
