"""The survivors of a group over hosts: they meet at the lowest that lives, which leads them to a new rendezvous.

Who has died is found out at its post: where a connection is refused, the process has ended. A rank whose post answers
nothing may be on the other side of a network that is cut in two: a side goes on only if it is the larger one. A rank
that wants to go on shows it at its post from the first moment, and no leader decides without it (`awaited`); who leads
asks the absent ranks, and thereby calls them. No rank returns a group before all of its members have it; where the
leader dies at that moment, the members ask each other.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ringtree.errors import PeerDied, Poisoned
from ringtree.runtime.bootstrap.network.boards.handed_on import HandedOn
from ringtree.runtime.bootstrap.network.connection import Connection
from ringtree.runtime.bootstrap.network.contact import Contact
from ringtree.runtime.bootstrap.network.hosts import MultiHostBootstrap
from ringtree.runtime.bootstrap.network.post import (
    ATTENDS,
    AWAY,
    GIVEN_UP,
    GONE_ON,
    LEADS,
    LEFT,
    MADE,
    MAKES,
    MOST_BROKEN,
    SILENT_S,
    Addressee,
    Answer,
    Come,
    Correspondent,
    dial,
    post,
)
from ringtree.runtime.communicator.membership.awaited import LOST, awaited, gives_way

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator

NAP_S = 0.002
WAIT_S = 0.1
"""Seconds between two looks of who waits for a leader's answer."""
GRACE_S = 2.0
"""Seconds that a new leader waits for the others where the time was up at the one before."""
UNMET_S = 2 * SILENT_S
"""Seconds beyond twice the timeout after which a rank that wants to go on and does not come is taken to be out of
reach: it is reached, and does not reach the leader."""


class CutOff(Poisoned):
    """Too many ranks are out of reach: the others may go on without this side."""


class Round(NamedTuple):
    """An attempt of these members to make their group, by this way to each other."""

    name: str
    members: list[int]
    bootstrap: MultiHostBootstrap


class SurvivorsOverHosts:
    """This rank among the survivors of a group. `shunned`: the ranks without which it goes on."""

    def __init__(self, comm: Communicator, timeout_s: float, shunned: list[int]) -> None:
        self._comm, self._timeout_s, self._shunned = comm, timeout_s, shunned
        self._bootstrap = cast(MultiHostBootstrap, comm._parameters.bootstrap)
        names = comm._parameters.names
        job, proof_of = self._bootstrap.job, self._bootstrap.proof_of
        self._to = [Addressee(self._bootstrap.post_of(name), job, proof_of) for name in names]
        hosts = comm.hosts
        self._near = [rank for rank in range(comm.size) if hosts[rank] == hosts[comm.rank]]
        self._post = post()
        self._asked: dict[int, Correspondent] = {}
        self._passed: set[int] = set()
        self._broken: Counter[int] = Counter()
        self._closed_s: dict[int, float] = {}

    def gather(self) -> Round:
        """The members that go on, and their way to each other. Poisoned: without this rank."""
        self._post.does(self._comm.key, ATTENDS)  # from here on whoever leads waits for this rank
        self._broken.clear()
        self._passed = self._out_of_reach()
        until_s = time.monotonic() + self._timeout_s
        while True:
            self._comm._end_waits()
            leader = min(self._leading(), default=self._next())
            found = self._lead(until_s) if leader == self._comm.rank else self._attend(leader, until_s)
            if found is not None:
                self._post.attempt(found.name)
                self._post.does(self._comm.key, MAKES)
                return found
            until_s = max(until_s, time.monotonic() + min(GRACE_S, self._timeout_s))

    def settle(self, attempt: Round, ready: bool) -> bool:
        """Whether the attempt's group is all members'. `ready`: as far as this one knows it is."""
        outcome = self._post.settle(attempt.name, MADE if ready else GIVEN_UP)
        if outcome != MADE and self._made_elsewhere(attempt):
            self._post.correct(attempt.name)
            outcome = MADE
        if outcome == MADE:
            self._post.does(self._comm.key, GONE_ON)
        return outcome == MADE

    def leave(self) -> None:
        """This rank takes no part any more."""
        self._post.does(self._comm.key, LEFT)

    def wait(self) -> None:
        """This rank may come again."""
        self._post.does(self._comm.key, AWAY)

    def _gone(self) -> tuple[set[int], set[int]]:
        """Ranks whose processes on this host have ended; ranks that have closed the group, to go on or not."""
        states = [state for state, *_ in self._comm._endpoint.peers()]
        ended = {r for r in self._near if states[r] == "died"}
        return ended, {r for r, state in enumerate(states) if state == "left"}

    def _next(self) -> int:
        """The lowest rank that may lead, as far as known: this one at last."""
        passed = self._passed.union(*self._gone())
        return next(r for r in range(self._comm.size) if r == self._comm.rank or r not in passed)

    def _leading(self) -> set[int]:
        """The lower ranks that lead: by their answers, or since they have asked this one."""
        asked = {rank for rank, by in self._asked.items() if by.answer.state == LEADS}
        leaders = asked | self._post.leaders(self._comm.key)
        return {r for r in leaders if r < self._comm.rank and self._broken[r] < MOST_BROKEN}

    def _attend(self, leader: int, until_s: float) -> Round | None:
        """Comes to a leader. None: it is none, or time is up, or another leads."""
        self._post.does(self._comm.key, ATTENDS)
        try:
            connection = dial(self._to[leader])
            try:
                connection.send({"come": self._comm.key, "rank": self._comm.rank, "shunned": self._shunned})
                found, passed = self._answered(connection, leader, until_s)
            finally:
                connection.wire.close()
        except (OSError, PeerDied):  # also where it ends just after it has handed on where they meet
            found, passed = None, True
            self._broken[leader] += 1
        if passed:
            self._passed.add(leader)
        return found

    def _answered(self, connection: Connection, leader: int, until_s: float) -> tuple[Round | None, bool]:
        """The outcome of waiting at a leader, and whether to pass it over from here on. It is awaited until the time is
        up where it does nothing, and as long as it answers where it wants to go on. OSError: it does not answer."""
        connection.wire.settimeout(WAIT_S)
        state, asked_s, heard_s = Correspondent.UNKNOWN, 0.0, time.monotonic()
        while (now_s := time.monotonic()) < until_s or state != AWAY:
            if now_s > heard_s + SILENT_S:
                raise TimeoutError
            if state != LEADS and min(self._leading(), default=leader) != leader:  # of two, one gives way by itself
                return None, False
            if now_s >= asked_s + WAIT_S:
                connection.send({"key": self._comm.key})
                asked_s = now_s
                self._comm._end_waits()
            answer: dict[str, Any] | None = None
            with suppress(TimeoutError):
                answer = connection.receive()
            while answer is not None:
                heard_s, state = time.monotonic(), answer.get("state", state)
                if "members" in answer or "why" in answer or state == GONE_ON:
                    return self._joined(answer, self._to[leader].address[0]), False
                if "again" in answer or state == LEFT:
                    return None, state == LEFT
                answer = connection.next()
        return None, True

    def _joined(self, answer: dict[str, Any], leads_at: str) -> Round:
        if "why" in answer:
            raise CutOff(answer["why"])
        members: list[int] = answer.get("members", [])
        if self._comm.rank not in members:
            raise self._left_out()
        contact = Contact.of(answer["contact"])
        addresses = dict.fromkeys((leads_at, *contact.addresses))
        board = HandedOn(Contact(tuple(addresses), contact.port, contact.secret), leads_at)
        self._post.attempt(answer["name"])  # whoever asks from here on has an answer
        return Round(answer["name"], members, self._way(board, members))

    def _way(self, board: HandedOn, members: list[int]) -> MultiHostBootstrap:
        return MultiHostBootstrap(board, members.index(self._comm.rank), len(members), self._timeout_s)

    def _out_of_reach(self) -> set[int]:
        """The lower ranks that a wire has reported, and that do not answer at their posts either."""
        states = [state for state, *_ in self._comm._endpoint.peers()]
        doubtful = [r for r in range(self._comm.rank) if states[r] == "died" and r not in self._near]
        until_s = time.monotonic() + SILENT_S
        while time.monotonic() < until_s and any(self._answer(r).state == Correspondent.UNKNOWN for r in doubtful):
            if self._leading():
                break
            time.sleep(NAP_S)
        return {rank for rank in doubtful if self._answer(rank).state in (*LOST, Correspondent.UNKNOWN)}

    def _answer(self, rank: int) -> Answer:
        """The last answer of that rank's post."""
        if rank not in self._asked:
            self._asked[rank] = Correspondent(self._to[rank], self._comm.key, self._comm.rank)
        return self._asked[rank].answer

    def close(self) -> None:
        """Asks no more."""
        for correspondent in self._asked.values():
            correspondent.stop()
        self._asked.clear()

    def _lead(self, until_s: float) -> Round | None:
        """Takes the others in. None: a lower rank leads."""
        key, me = self._comm.key, self._comm.rank
        self._post.does(key, LEADS)
        while True:
            came = {come.rank: come for come in self._post.come(key)}
            if self._leading():
                self._answer_all(came, {"again": True})
                return None
            shunned = {*self._shunned}.union(*(come.shunned for come in came.values()))
            self._comm._end_waits()
            ended, left = self._gone()
            now_s = time.monotonic()
            for rank in left:
                self._closed_s.setdefault(rank, now_s)
            absent = {*range(self._comm.size)} - {me, *came} - shunned - ended
            answers = {rank: self._answer(rank) for rank in absent}
            if any(answer.state == GONE_ON for answer in answers.values()):
                raise self._left_out()
            unmet = awaited(answers, self._closed_s, until_s)
            makes = any(answers[rank].state == MAKES for rank in unmet)  # by a clock of its own
            if not unmet or (now_s > until_s + self._timeout_s + UNMET_S and not makes):
                silent = {r for r, (state, _) in answers.items() if state == Correspondent.SILENT}
                return self._decide(came, shunned, unmet | silent - {*self._near})
            time.sleep(NAP_S)

    def _decide(self, came: dict[int, Come], shunned: set[int], silent: set[int]) -> Round:
        me = self._comm.rank
        here = {me, *came}
        if gives_way(here, silent):
            why = self._cut_off(here, silent)
            self._answer_all(came, {"why": why})
            raise CutOff(why)
        members = sorted(here - shunned)
        if me not in members:
            self._answer_all(came, {"again": True})
            raise self._left_out()
        board = HandedOn()
        made = Round(secrets.token_hex(16), members, self._way(board, members))
        assert board.contact is not None
        self._answer_all(came, {"name": made.name, "members": members, "contact": board.contact.text()})
        return made

    def _answer_all(self, came: dict[int, Come], message: dict[str, Any]) -> None:
        self._post.dismiss(self._comm.key, came.values())
        for come in came.values():
            come.answer(message)

    def _made_elsewhere(self, attempt: Round) -> bool:
        """Whether another member has the group. Who is asked and has it not, does not take it any more."""
        others = [rank for rank in attempt.members if rank != self._comm.rank]
        return any(self._outcome_at(rank, attempt.name) == MADE for rank in others)

    def _outcome_at(self, rank: int, name: str) -> str:
        with suppress(OSError, KeyError):
            connection = dial(self._to[rank])
            try:
                connection.send({"attempt": name})
                return str(connection.whole(SILENT_S)["outcome"])
            finally:
                connection.wire.close()
        return GIVEN_UP

    def _cut_off(self, here: set[int], silent: set[int]) -> str:
        lost, left = (self._named(sorted(ranks)) for ranks in (silent, here))
        cut, fewer = ("is" if len(ranks) == 1 else "are" for ranks in (silent, here))
        return (
            f"{lost} {cut} out of reach of {left}, which {fewer} not more: the network may be cut in two, and they "
            f"may go on; shrink(leave_out={sorted(silent)}) goes on without them"
        )

    def _named(self, ranks: list[int]) -> str:
        names = self._comm._parameters.names
        return f"rank{'s' * (len(ranks) > 1)} {', '.join(names[rank] for rank in ranks)}"

    def _left_out(self) -> Poisoned:
        return Poisoned(
            f"the others have gone on without rank {self._comm.rank}: it did not come to shrink() in time, or one of "
            "them listed it in leave_out; end this process"
        )
