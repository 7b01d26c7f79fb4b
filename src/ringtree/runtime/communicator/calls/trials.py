"""Trials: two ways to move a call's bytes, which the first calls of its kind take in turn; the quicker one stays.

Whether one copy by the kernel takes less time than two through staging depends on where the bytes were before the
call, which no table of rates knows (decision 0091). All ranks make the calls of a kind in one order, so they take the
same way in each; the outcome is that of one rank's times, or of two's, and the others read it in the group's memo.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

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
MOST_TRIES = 4
"""Trials of a kind whose calls are started and go on when their times are asked for, before the prediction holds."""


class Trial:
    """One rank's times of two ways of a kind of call: the one that `found` has, and its `other`."""

    def __init__(self, found: Decision) -> None:
        assert found.other is not None
        self._found = found
        why = f"{found.why}; the first calls try it with and without single copies"
        self._ways = tuple(found._replace(steps=steps, why=why, other=None) for steps in (found.steps, found.other))
        self._calls = self._tries = 0
        self._least_s = [inf, inf]  # a byte
        self._started: list[tuple[int, int, int]] = []  # way, bytes and ticket
        self._settled: Decision | None = None
        self._awaits_peers = False

    @property
    def is_measured(self) -> bool:
        """Whether all calls that are compared have been begun."""
        return self._calls >= len(IN_TURN)

    @property
    def is_reported(self) -> bool:
        """Whether a call by single copies followed those: who sends in it hears that others have reported theirs."""
        return self._calls > len(IN_TURN)

    @property
    def is_over(self) -> bool:
        """Whether all its calls have been begun."""
        return self._calls >= len(IN_TURN) + SPREADING

    @property
    def is_settled(self) -> bool:
        """Whether the way of all later calls is known, or that they are tried again."""
        return self._settled is not None

    @property
    def tries(self) -> int:
        """The trials before this one."""
        return self._tries

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

    def count(self) -> int | None:
        """Counts a call that is about to begin. Returns the way that its time is compared for, None where it is not."""
        way = self.way
        compared = not self.is_measured and self._calls != IN_TURN.index(way)
        self._calls += 1
        return way if compared else None

    def take_back(self) -> None:
        """Counts a call out again that did not begin."""
        self._calls -= 1

    def note(self, way: int | None, nbytes: int, seconds: float) -> None:
        """Takes the time of a call of that way, as `count` returned it."""
        if way is not None:
            self._least_s[way] = min(self._least_s[way], seconds / nbytes)

    def note_later(self, way: int | None, nbytes: int, ticket: int) -> None:
        """Lets `hear` ask for the time of a call that was started."""
        if way is not None:
            self._started.append((way, nbytes, ticket))

    def hear(self, work_s: Callable[[int], float | None]) -> None:
        """Takes the times of the started calls that have ended."""
        going_on = []
        for way, nbytes, ticket in self._started:
            if (seconds := work_s(ticket)) is None:
                going_on.append((way, nbytes, ticket))
            else:
                self.note(way, nbytes, seconds)
        self._started = going_on

    @property
    def least_s(self) -> tuple[float, float]:
        """The least time of a byte by each way; infinite where it has none."""
        return self._least_s[0], self._least_s[1]

    def note_peers(self, theirs_s: tuple[float, float], peers: int, cores: int) -> None:
        """Takes the times of one of the root's `peers` for all of theirs. Calls follow one another as quickly as the
        slower of both ends copies, and as the cores do the work of all. Infinite ones may be to come."""
        self._awaits_peers = inf in theirs_s
        self._least_s = [
            max(root_s, peer_s, (root_s + peers * peer_s) / cores)
            for root_s, peer_s in zip(self._least_s, theirs_s, strict=True)
        ]

    def outcome(self) -> Decision:
        """The quicker way by this rank's times; `unmeasured` where either has none, for good where none is to come."""
        predicted_s, other_s = self._least_s
        if inf in (predicted_s, other_s):
            return self.unmeasured(again=bool(self._started) or self._awaits_peers)
        found = self._ways[other_s < (1 - LEAST_GAIN) * predicted_s]
        share = predicted_s / other_s if self._ways[0].steps.single_copy else other_s / predicted_s
        return found._replace(why=f"single copies took {share:.2f} of the time of staging in this group's first calls")

    def unmeasured(self, again: bool = True) -> Decision:
        """The way with the lower prediction, with the other one where there is to be a further trial."""
        if again and self._tries + 1 < MOST_TRIES:
            return self._found
        return self._found._replace(why=f"{self._found.why}; no trial had times of both ways", other=None)

    def settle(self, outcome: Decision) -> None:
        """Lets the calls that come after the trial go that way, or try both again."""
        self._settled = outcome

    def begin_again(self) -> None:
        """Begins a further trial where the outcome of one that is over asks for it."""
        if self.is_over and self._settled is not None and self._settled.other is not None:
            self._calls, self._settled = 0, None
            self._tries += 1


class Trials:
    """The trials of a group, as one rank has them. They are kept for as long as the group, so that ranks which have
    forgotten a plan find the same way again. `cores`: what the ranks have between them; `timed`: the group's calls with
    their times; without, none is tried."""

    def __init__(self, decisions: Decisions, parameters: GroupParameters, cores: int, timed: TimedRuns | None) -> None:
        self._decisions, self._parameters, self._cores, self._timed = decisions, parameters, cores, timed
        self._trials: dict[Kind, Trial] = {}

    def begin(self, kind: Kind, found: Decision) -> Trial:
        """The trial of a kind of call that was decided so, a new one at its first call."""
        return self._trials.setdefault(kind, Trial(found))

    def end(self) -> None:
        """Lets go of the engine, which has been closed."""
        self._timed = None

    def way(self, kind: Kind) -> int:
        """The number of the way of the next call of that kind; 0 where there are no two."""
        trial = self._trials.get(kind)
        if trial is None:
            return 0
        if trial.is_over and not trial.is_settled:
            self._settle(kind, trial)
        trial.begin_again()
        return trial.way

    def under_way(self, kind: Kind) -> Trial | None:
        """The trial that a call of that kind belongs to; None where there is none, or it is over."""
        trial = self._trials.get(kind)
        over = trial is None or self._timed is None or (trial.is_over and trial.is_settled)
        return None if over else trial

    def run(self, kind: Kind, trial: Trial, nbytes: int, plan: int, addresses: tuple[int, int]) -> None:
        """Makes a call, and takes its time: that of a core for this rank's copies, for to wait for a rank that comes
        late is no property of a way. A call is counted before it begins, for another thread's may come meanwhile."""
        assert self._timed is not None
        made, way = self._timed.calls, trial.count()
        try:
            work_s = self._timed.run_timed(plan, *addresses)
        except BaseException:  # of a signal's handler: the others count the call that has been made
            if self._timed is not None and self._timed.calls == made:
                trial.take_back()
            raise
        trial.note(way, nbytes, work_s)
        self._publish(kind, trial)

    def start(self, kind: Kind, trial: Trial, nbytes: int, plan: int, addresses: tuple[int, int]) -> int:
        """Starts a call, and returns its ticket. Its time is that of `run`."""
        assert self._timed is not None
        way = trial.count()
        ticket = self._timed.start_timed(plan, *addresses)
        trial.note_later(way, nbytes, ticket)
        self._publish(kind, trial)
        return ticket

    def _publish(self, kind: Kind, trial: Trial) -> None:
        """After the last call that is compared, the rank that measures publishes the outcome; a root waits for a call
        more, for one of its peers publishes the times of its own work."""
        if not trial.is_measured or trial.is_settled:
            return
        if self._measures(kind):
            if trial.is_reported or not _has_root(kind):
                self._settle(kind, trial)
        elif _has_root(kind) and self._is_last_peer(kind) and self._timed is not None:
            trial.hear(self._timed.work_s)
            self._decisions.report(self._name(kind, trial), trial.least_s)

    def _settle(self, kind: Kind, trial: Trial) -> None:
        """Takes the outcome of the memo. A rank that finds none publishes that nothing was measured: nobody waits for
        the one that measures."""
        name, outcome = self._name(kind, trial), trial.unmeasured()
        if self._measures(kind):
            if self._timed is not None:
                trial.hear(self._timed.work_s)
            if _has_root(kind):
                trial.note_peers(self._decisions.reported(name), self._parameters.ranks - 1, self._cores)
            outcome = trial.outcome()
        trial.settle(self._decisions.settle(self._parameters, name, outcome, trial.unmeasured()))

    def _name(self, kind: Kind, trial: Trial) -> tuple[object, ...]:
        return *kind, trial.tries

    def _measures(self, kind: Kind) -> bool:
        """Whether this rank decides: the root, or rank 0 where all ranks do the same."""
        return self._parameters.rank == max(kind[1], 0)

    def _is_last_peer(self, kind: Kind) -> bool:
        """Whether this rank is the one of the root's peers that it serves last; all have as much to do."""
        return self._parameters.rank == (kind[1] - 1) % self._parameters.ranks


def _has_root(kind: Kind) -> bool:
    """Whether the root has other work than its peers, of which it may be ahead by what its staging holds."""
    return kind[1] >= 0
