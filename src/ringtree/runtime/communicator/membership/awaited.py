"""Whom the leader of survivors over hosts waits for, and whether its side goes on: by the answers of posts alone."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from ringtree.runtime.bootstrap.network.post import AWAY, LEFT, Answer, Correspondent

LOST = (Correspondent.ENDED, Correspondent.SILENT, LEFT)
"""The states of a rank that does not come."""


def awaited(answers: Mapping[int, Answer], closed_s: Mapping[int, float], until_s: float) -> set[int]:
    """The ranks that may still come, of those that have not. A rank that wants to go on, or has yet to answer, is
    awaited however late it is.

    `answers`: of their posts; `closed_s`: since when it is known of some that they have closed the group, which those
    do too that have gone on; `until_s`: until when one is awaited that does nothing. Times by time.monotonic().
    """

    def may_come(rank: int, answer: Answer) -> bool:
        if answer.state == AWAY:  # an earlier answer may be of before it called shrink()
            return answer.asked_s <= min(until_s, closed_s.get(rank, inf))
        return answer.state not in LOST

    return {rank for rank, answer in answers.items() if may_come(rank, answer)}


def gives_way(here: set[int], silent: set[int]) -> bool:
    """Whether these ranks may not go on: more may be on the other side of a cut network, or as many and the lowest."""
    return len(silent) > len(here) or (len(silent) == len(here) and min(silent) < min(here))
