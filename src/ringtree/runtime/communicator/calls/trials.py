"""Trials: two ways to move a call's bytes, which the first calls of its kind take in turn; the quicker one stays.

Whether one copy by the kernel takes less time than two through staging depends on where the bytes were before the
call, which no table of rates knows (decision 0091). All ranks make the calls of a kind in one order, so they take the
same way in each; the outcome is one rank's, and the others read it in the group's memo.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringtree.runtime.communicator.calls.decisions import Decision, Decisions
    from ringtree.runtime.engines.engine import GroupParameters

IN_TURN = (0, 0, 0, 1, 1, 1)
"""The ways of the first calls: 0 is the one with the lower prediction. A way's calls follow one another, for a call
finds in the caches what the last one left there; its first does not compete."""
OUTCOME = 2
"""In place of a way's number, once the trial is settled."""
LEAST_GAIN = 0.1
"""The share of the time that the other way must save, for the times of one way differ by nearly as much."""


class Trial:
    """One rank's times of two ways of a kind of call: those of its copies, without waits, for to wait for a rank that
    comes late is no property of a way."""

    def __init__(self, predicted: Decision, other: Decision) -> None:
        self._ways = predicted, other
        self._calls = 0
        self._least_s = [inf, inf]  # a byte
        self._settled: Decision | None = None

    @property
    def is_over(self) -> bool:
        """Whether all its calls are made."""
        return self._calls >= len(IN_TURN)

    @property
    def is_settled(self) -> bool:
        """Whether the way of all later calls is known."""
        return self._settled is not None

    @property
    def way(self) -> int:
        """The number of the way that the next call takes."""
        return IN_TURN[self._calls] if self._settled is None else OUTCOME

    @property
    def decision(self) -> Decision:
        """The way of the next call, and the reason for it."""
        return self._settled or self._ways[self.way]

    def note(self, nbytes: int, work_s: float | None) -> None:
        """Counts a call that this rank has made, whose copies took `work_s` (None: it goes on, or nobody looked)."""
        way, first = self.way, IN_TURN.index(self.way)
        if work_s is not None and self._calls != first:
            self._least_s[way] = min(self._least_s[way], work_s / nbytes)
        self._calls += 1

    def predicted(self) -> Decision:
        """The way with the lower prediction."""
        return self._ways[0]

    def outcome(self) -> Decision:
        """The quicker way by this rank's times; the predicted one where either way has none."""
        predicted_s, other_s = self._least_s
        if predicted_s == inf or other_s == inf:
            return self._ways[0]
        found = self._ways[other_s < (1 - LEAST_GAIN) * predicted_s]
        share = predicted_s / other_s if self._ways[0].steps.single_copy else other_s / predicted_s
        return found._replace(why=f"single copies took {share:.2f} of the time of staging in this group's first calls")

    def settle(self, outcome: Decision) -> None:
        """All later calls go that way."""
        self._settled = outcome


class Trials:
    """The trials of a group, as one rank has them: one of each collective and power of two of bytes that has two ways.
    It is kept for as long as the group, so that ranks which have forgotten a plan find the same way again."""

    def __init__(self, decisions: Decisions, parameters: GroupParameters) -> None:
        self._decisions, self._parameters = decisions, parameters
        self._trials: dict[tuple[str, int], Trial] = {}

    def begin(self, kind: tuple[str, int], found: Decision) -> Trial:
        """The trial of a kind of call that was decided so, a new one at its first call."""
        assert found.other is not None
        predicted = found._replace(
            other=None, why=f"{found.why}; the first calls try it with and without single copies"
        )
        return self._trials.setdefault(kind, Trial(predicted, predicted._replace(steps=found.other)))

    def way(self, kind: tuple[str, int]) -> int:
        """The number of the way of the next call of that kind; 0 where there are no two."""
        trial = self._trials.get(kind)
        if trial is None:
            return 0
        if trial.is_over and not trial.is_settled:
            trial.settle(self._decisions.settle(self._parameters, kind, trial))
        return trial.way

    def open(self, kind: tuple[str, int]) -> Trial | None:
        """The trial that a call of that kind belongs to; None where there is none, or it is settled."""
        trial = self._trials.get(kind)
        return None if trial is None or trial.is_settled else trial
