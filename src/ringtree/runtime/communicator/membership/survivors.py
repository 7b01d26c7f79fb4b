"""The turns by which the survivors of a group on one machine agree, in the group's memory (csrc/health/agreement.h).

In odd turns they decide who goes on, in even ones whether these have made their new group. Anyone may decide: the first
decision counts, and outlives the rank that made it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ringtree.errors import Poisoned

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator

LOOK_S = 0.01
"""Seconds between two looks at who lives."""
SHORTEST_NAP_S, LONGEST_NAP_S = 1e-4, 2e-3
"""Seconds that a survivor sleeps which waits for others, the longer the longer it has."""
STALL_S = 0.2
"""Seconds between two looks from which on this process, or its machine, stood still meanwhile. Such seconds do not
count: the other ranks may have stood still, too."""
DEPUTY_S = 0.02
"""Seconds after which any survivor makes a decision that the lowest of them could have made."""


class Verdict(NamedTuple):
    """`made`: the members have made their group, and may go on."""

    made: bool
    members: list[int]


class Survivors:
    """This rank among the survivors. `shunned`: the ranks without which it goes on."""

    def __init__(self, comm: Communicator, timeout_s: float, shunned: list[int]) -> None:
        self._comm, self._rank, self._timeout_s, self._shunned = comm, comm.rank, timeout_s, shunned
        self._endpoint = comm._endpoint
        self._turn, _, members = self._endpoint.decision()
        self._candidates = members if self._turn else list(range(comm.size))
        if self._rank not in self._candidates:
            raise self._left_out()

    @property
    def turn(self) -> int:
        """The last turn that was decided, as far as this rank knows."""
        return self._turn

    def running(self, ranks: Sequence[int]) -> list[int]:
        """The ranks among these that have neither died nor left."""
        states = self._endpoint.peers()
        return [rank for rank in ranks if states[rank][0] == "running"]

    def gave_up(self) -> bool:
        """Whether others have decided already that the members have not made their group."""
        turn, _, _ = self._endpoint.decision()
        return turn > self._turn

    def members(self) -> list[int]:
        """The members that go on: who has come when all have that can, or time is up. Poisoned: without this rank."""
        while True:
            while self._turn % 2 == 1:  # it came too late to say that it has made its group
                self.made(False)
            members = self._decided(False, self._those_who_came).members
            if self._turn % 2 == 1:  # else others have made an attempt without it already, and given it up
                return members

    def made(self, ready: bool) -> bool:
        """Whether all members have made their group. `ready`: this rank has."""
        return self._decided(ready, self._whether_made).made

    def _decided(self, ready: bool, propose: Callable[[int, bool, bool], Verdict | None]) -> Verdict:
        turn = self._turn + 1
        self._endpoint.arrive(turn, ready, self._shunned)
        now_s = time.monotonic()
        until_s = now_s + self._timeout_s
        nap_s, look_s, complete_s = SHORTEST_NAP_S, 0.0, 0.0
        while True:
            at, made, members = self._endpoint.decision()
            if at >= turn:
                self._turn, self._candidates = at, members
                if self._rank not in members:
                    raise self._left_out()
                return Verdict(made, members)
            looked_s, now_s = now_s, time.monotonic()
            if now_s - looked_s > STALL_S:
                until_s += now_s - looked_s
            looks = now_s >= look_s
            if looks:
                look_s = now_s + LOOK_S
                self._comm._end_waits()
            if verdict := propose(turn, looks, now_s > until_s):
                complete_s = complete_s or now_s
                if self._leads(turn) or now_s > complete_s + DEPUTY_S:
                    self._endpoint.decide(turn, *verdict)
                    continue
            time.sleep(nap_s)
            nap_s = min(2 * nap_s, LONGEST_NAP_S)

    def _came(self, turn: int) -> list[int]:
        return [rank for rank in self._candidates if self._endpoint.arrivals()[rank][0] >= turn]

    def _leads(self, turn: int) -> bool:
        return self._came(turn)[0] == self._rank

    def _those_who_came(self, turn: int, looks: bool, late: bool) -> Verdict | None:
        arrivals = self._endpoint.arrivals()
        came = [rank for rank in self._candidates if arrivals[rank][0] >= turn]
        awaited = [rank for rank in self._candidates if arrivals[rank][0] < turn and not arrivals[rank][2]]
        if awaited and not late and (not looks or self.running(awaited)):
            return None
        return Verdict(False, self.running([rank for rank in came if not arrivals[rank][2]]))

    def _whether_made(self, turn: int, looks: bool, late: bool) -> Verdict | None:
        arrivals = self._endpoint.arrivals()
        absent = [rank for rank in self._candidates if arrivals[rank][0] < turn]
        ready = all(arrivals[rank][1] for rank in self._candidates if rank not in absent)
        if late and absent:
            return Verdict(False, [rank for rank in self._candidates if rank not in absent])
        if absent and ready and (not looks or len(self.running(absent)) == len(absent)):
            return None
        return Verdict(ready and not absent, self._candidates)

    def _left_out(self) -> Poisoned:
        return Poisoned(
            f"the others have gone on without rank {self._rank}: it did not come to shrink() in time, or one of them "
            "listed it in leave_out; end this process"
        )
