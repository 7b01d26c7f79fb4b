"""Trials: two ways to move a call's bytes, which the first calls of its kind take in turn; the quicker one stays.

Whether one copy by the kernel takes less time than two through staging depends on where the bytes were before the
call, which no table of rates knows (decision 0091). All ranks make the calls of a kind in one order, so they take the
same way in each; the outcome is that of one rank's times, and the others read it in the group's memo.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING

from ringtree.ir.collective import COLLECTIVES, BufferExtent

if TYPE_CHECKING:
    from ringtree.runtime.communicator.calls.decisions import Decision, Decisions
    from ringtree.runtime.engines.engine import GroupParameters
    from ringtree.runtime.engines.protocols import TimedRuns

Kind = tuple[str, int, int]
"""A collective, its root (-1: none), and its bytes up to a power of two."""
IN_TURN = (0,) * 6 + (1,) * 5
"""The ways of the first calls: 0 is the one with the lower prediction. A way's calls follow one another, for a call
finds in the caches what the last one left there; its first does not compete. The first few calls of a program take two
to four times as long as later ones, whichever way they go, so the way that comes first has more of them."""
SPREADING = 2
"""Calls after those, by single copies, so that both ends of a message wait for each other: who has made them has heard,
by whatever ranks, from the one that measures since it published the outcome."""
OUTCOME = 2
"""In place of a way's number, once the trial is settled."""
LEAST_GAIN = 0.1
"""The share of the time that the other way must save, for the times of one way differ by nearly as much."""


class Trial:
    """One rank's times of two ways of a kind of call."""

    def __init__(self, predicted: Decision, other: Decision) -> None:
        self._ways = predicted, other
        self._calls = 0
        self._least_s = [inf, inf]  # a byte
        self._started: list[tuple[int, int, Callable[[], float | None]]] = []
        self._settled: Decision | None = None

    @property
    def is_measured(self) -> bool:
        """Whether all calls that are compared have been made."""
        return self._calls >= len(IN_TURN)

    @property
    def is_over(self) -> bool:
        """Whether all its calls have been made."""
        return self._calls >= len(IN_TURN) + SPREADING

    @property
    def is_settled(self) -> bool:
        """Whether the way of all later calls is known."""
        return self._settled is not None

    @property
    def way(self) -> int:
        """The number of the way that the next call takes."""
        if self._settled is not None and self.is_over:
            return OUTCOME
        return int(self._ways[1].steps.single_copy) if self.is_measured else IN_TURN[self._calls]

    @property
    def decision(self) -> Decision:
        """The way of the next call, and the reason for it."""
        return self._settled if self._settled is not None and self.is_over else self._ways[self.way]

    def note(self, nbytes: int, seconds: float | None) -> None:
        """Counts a call that this rank has made, in so much time (None: it goes on, or nobody looked)."""
        if seconds is not None and self._competes:
            self._least_s[self.way] = min(self._least_s[self.way], seconds / nbytes)
        self._calls += 1

    def ask_later(self, nbytes: int, seconds: Callable[[], float | None]) -> None:
        """Lets the outcome ask for the time of the call that is counted next, which goes on."""
        if self._competes:
            self._started.append((self.way, nbytes, seconds))

    @property
    def _competes(self) -> bool:
        """Whether the time of the next call counts."""
        return not self.is_measured and self._calls != IN_TURN.index(self.way)

    def predicted(self) -> Decision:
        """The way with the lower prediction."""
        return self._ways[0]

    def outcome(self) -> Decision:
        """The quicker way by this rank's times; the predicted one where either way has none."""
        while self._started:
            way, nbytes, asked = self._started.pop()
            if (seconds := asked()) is not None:
                self._least_s[way] = min(self._least_s[way], seconds / nbytes)
        predicted_s, other_s = self._least_s
        if predicted_s == inf or other_s == inf:
            return self._ways[0]
        found = self._ways[other_s < (1 - LEAST_GAIN) * predicted_s]
        share = predicted_s / other_s if self._ways[0].steps.single_copy else other_s / predicted_s
        return found._replace(why=f"single copies took {share:.2f} of the time of staging in this group's first calls")

    def settle(self, outcome: Decision) -> None:
        """Lets the calls that come after the trial go that way."""
        self._settled = outcome


class Trials:
    """The trials of a group, as one rank has them. They are kept for as long as the group, so that ranks which have
    forgotten a plan find the same way again."""

    def __init__(self, decisions: Decisions, parameters: GroupParameters, cores_are_shared: bool) -> None:
        self._decisions, self._parameters, self._cores_are_shared = decisions, parameters, cores_are_shared
        self._trials: dict[Kind, Trial] = {}

    def begin(self, kind: Kind, found: Decision) -> Trial:
        """The trial of a kind of call that was decided so, a new one at its first call."""
        assert found.other is not None
        why = f"{found.why}; the first calls try it with and without single copies"
        predicted, other = (found._replace(steps=s, why=why, other=None) for s in (found.steps, found.other))
        return self._trials.setdefault(kind, Trial(predicted, other))

    def way(self, kind: Kind) -> int:
        """The number of the way of the next call of that kind; 0 where there are no two."""
        trial = self._trials.get(kind)
        if trial is None:
            return 0
        if trial.is_over and not trial.is_settled:
            self._settle(kind, trial)
        return trial.way

    def under_way(self, kind: Kind) -> Trial | None:
        """The trial that a call of that kind belongs to; None where there is none, or it is over."""
        trial = self._trials.get(kind)
        return None if trial is None or (trial.is_over and trial.is_settled) else trial

    def run(self, kind: Kind, trial: Trial, runs: TimedRuns, plan: int, addresses: tuple[int, int]) -> float:
        """Makes a call, and returns its time: that of a core for this rank's copies, for to wait for a rank that comes
        late is no property of a way. But by the wall where others' copies hold this rank up: the root's where it sends,
        and where it receives those of all who share its core."""
        began_s, made = perf_counter(), runs.calls
        try:
            work_s = runs.run_timed(plan, *addresses)
        except BaseException:  # of a signal's handler: the others count the call that has been made
            if runs.calls > made:
                self.note(kind, trial, 1, None)
            raise
        return perf_counter() - began_s if self._is_held_up(kind) else work_s

    def start(
        self, kind: Kind, trial: Trial, nbytes: int, runs: TimedRuns, plan: int, addresses: tuple[int, int]
    ) -> int:
        """Starts a call, and returns its ticket. Its time counts as that of `run`, unless it is the wall's."""
        ticket = runs.start_timed(plan, *addresses)
        if not self._is_held_up(kind):
            trial.ask_later(nbytes, partial(runs.work_s, ticket))
        return ticket

    def _is_held_up(self, kind: Kind) -> bool:
        """Whether others' copies hold the measuring rank up."""
        return _root_sends(kind) or (self._cores_are_shared and COLLECTIVES[kind[0]].after is BufferExtent.ROOT)

    def note(self, kind: Kind, trial: Trial, nbytes: int, seconds: float | None) -> None:
        """Counts a call of the trial; after the last one that is compared, the rank that measures publishes."""
        trial.note(nbytes, seconds)
        if trial.is_measured and not trial.is_settled and self._measures(kind):
            self._settle(kind, trial)

    def _settle(self, kind: Kind, trial: Trial) -> None:
        """Takes the outcome of the memo. A rank that finds none publishes the prediction: nobody waits for the one that
        measures."""
        make = trial.outcome if self._measures(kind) else trial.predicted
        trial.settle(self._decisions.settle(self._parameters, kind, make(), trial.predicted()))

    def _measures(self, kind: Kind) -> bool:
        """Whether this rank's times count: the root's where it receives, those of the rank that it serves last where it
        sends, and rank 0's where all ranks do the same."""
        root, ranks = max(kind[1], 0), self._parameters.ranks
        return self._parameters.rank == ((root - 1) % ranks if _root_sends(kind) else root)


def _root_sends(kind: Kind) -> bool:
    return COLLECTIVES[kind[0]].before is BufferExtent.ROOT
