"""Which message goes to which receive: random programs against MPI's rules, written down as a model.

A machine writes a program that makes sense, with the outcome that the rules give it. The ranks then run it step by
step, and everyone takes in what has come before the next step, so that there is one order of events to speak of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from ringtree import ANY
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.communicator.messages.work import Message
from tests.runtime.conftest import Pools

SIZES = (1, 3, 100, 50_000)  # in int64: within a piece, one piece, several
NEVER = 1 << 30  # a tag that nobody uses

Step = tuple[Any, ...]
"""(rank, "isend", dst, tag, size), or (rank, "irecv" | "recv" | "iprobe", src, tag)."""


@dataclass
class Receive:
    step: int
    source: int
    tag: int


@dataclass
class SentMessage:
    step: int
    source: int
    tag: int
    size: int

    def goes_to(self, wanted: Receive) -> bool:
        return wanted.source in (ANY, self.source) and wanted.tag in (ANY, self.tag)


@dataclass
class Model:
    """By rank: receives that wait and unexpected messages, both oldest first. `outcomes`: by the step of a receive or a
    probe, the message it gets or sees; None where a probe sees nothing."""

    waiting: dict[int, list[Receive]] = field(default_factory=dict)
    unexpected: dict[int, list[SentMessage]] = field(default_factory=dict)
    outcomes: dict[int, SentMessage | None] = field(default_factory=dict)

    def send(self, dst: int, message: SentMessage) -> None:
        waiting = self.waiting.setdefault(dst, [])
        taker = next((r for r in waiting if message.goes_to(r)), None)
        if taker is None:
            self.unexpected.setdefault(dst, []).append(message)
        else:
            waiting.remove(taker)
            self.outcomes[taker.step] = message

    def see(self, rank: int, wanted: Receive) -> SentMessage | None:
        return next((message for message in self.unexpected.get(rank, []) if message.goes_to(wanted)), None)

    def receive(self, rank: int, wanted: Receive) -> None:
        found = self.see(rank, wanted)
        if found is None:
            self.waiting.setdefault(rank, []).append(wanted)
        else:
            self.unexpected[rank].remove(found)
            self.outcomes[wanted.step] = found


def perform(comm: Communicator, script: list[Step], outcomes: dict[int, SentMessage | None]) -> list[str]:
    """Runs the script on this rank; returns the differences from the model."""
    sent: list[Message] = []
    received, seen = {}, {}
    for number, (rank, what, peer, tag, *rest) in enumerate(script):
        if rank == comm.rank:
            if what == "isend":
                sent.append(comm.isend(np.full(rest[0], number), peer, tag))
            elif what == "iprobe":
                seen[number] = comm.iprobe(peer, tag)
            else:
                received[number] = comm.irecv(np.full(max(SIZES), -1), peer, tag, at_most=True)
                if what == "recv":
                    received[number].wait()
        take_in(comm, sent)
    wrong = []
    for number, status in seen.items():
        want = outcomes[number]
        if status != (want and (want.source, want.tag, 8 * want.size)):
            wrong.append(f"step {number}: rank {comm.rank} saw {status}, expected {want}")
    for number, message in received.items():
        want = outcomes[number]
        assert want is not None
        got = message.result()
        if (message.source, message.tag, len(got)) != (want.source, want.tag, want.size) or (got != want.step).any():
            wrong.append(f"step {number}: rank {comm.rank} got {got[:1]} from {message.source}, expected {want}")
    return wrong


def take_in(comm: Communicator, sent: list[Message]) -> None:
    """Until all that anyone has begun to send is with its receiver."""
    for message in sent:
        while not message.wait(0.0005):
            comm.iprobe(tag=NEVER)
    for _ in range(2):  # all is sent; all have looked, before anyone sends more
        everyone = comm.barrier(async_op=True)
        while not everyone.wait(0.0005):
            comm.iprobe(tag=NEVER)
        comm.iprobe(tag=NEVER)


numbers = st.integers(0, 11)
tags = st.sampled_from([0, 1, 2])
wanted_tags = st.sampled_from([0, 1, 2, ANY])


class Program(RuleBasedStateMachine):
    """Writes a program; runs it when it is complete."""

    pools: Pools
    engine: str

    @initialize(ranks=st.sampled_from([2, 3, 4]))
    def begin(self, ranks: int) -> None:
        self.ranks, self.model = ranks, Model()
        self.script: list[Step] = []

    def add_send(self, rank: int, dst: int, tag: int, size: int) -> None:
        self.model.send(dst, SentMessage(len(self.script), rank, tag, size))
        self.script.append((rank, "isend", dst, tag, size))

    def add_receive(self, rank: int, what: str, src: int, tag: int) -> None:
        self.model.receive(rank, Receive(len(self.script), src, tag))
        self.script.append((rank, what, src, tag))

    @rule(rank=numbers, dst=numbers, tag=tags, size=st.sampled_from(SIZES))
    def isend(self, rank: int, dst: int, tag: int, size: int) -> None:
        self.add_send(rank % self.ranks, dst % self.ranks, tag, size)

    @rule(rank=numbers, tag=wanted_tags, src=numbers | st.just(ANY))
    def irecv(self, rank: int, src: int, tag: int) -> None:
        self.add_receive(rank % self.ranks, "irecv", src if src == ANY else src % self.ranks, tag)

    @precondition(lambda self: any(self.model.unexpected.values()))
    @rule(data=st.data(), any_source=st.booleans(), any_tag=st.booleans())
    def recv(self, data: st.DataObject, any_source: bool, any_tag: bool) -> None:
        """A receive of a message that has come, or of an earlier one."""
        there = [(rank, message) for rank, unexpected in self.model.unexpected.items() for message in unexpected]
        rank, message = there[data.draw(st.integers(0, len(there) - 1))]
        self.add_receive(rank, "recv", ANY if any_source else message.source, ANY if any_tag else message.tag)

    @rule(rank=numbers, tag=wanted_tags, src=numbers | st.just(ANY))
    def iprobe(self, rank: int, src: int, tag: int) -> None:
        rank, src, step = rank % self.ranks, src if src == ANY else src % self.ranks, len(self.script)
        self.model.outcomes[step] = self.model.see(rank, Receive(step, src, tag))
        self.script.append((rank, "iprobe", src, tag))

    def teardown(self) -> None:
        if not hasattr(self, "script"):
            return
        for rank, unexpected in list(self.model.unexpected.items()):  # what nobody has received yet, and then
            for _ in range(len(unexpected)):
                self.add_receive(rank, "recv", ANY, ANY)
        for rank, waiting in list(self.model.waiting.items()):  # what nobody has sent
            while waiting:
                self.add_send(max(waiting[0].source, 0), rank, max(waiting[0].tag, 0), 1)
        reported = self.pools(self.engine, self.ranks).run(perform, self.script, self.model.outcomes)
        wrong = [line for lines in reported for line in lines]
        assert not wrong, "\n".join([*wrong, *map(str, enumerate(self.script))])


def check(pools: Pools, engine: str, examples: int) -> None:
    machine = type("Program", (Program,), {"pools": staticmethod(pools), "engine": engine})
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_random_programs_match_by_mpis_rules(pools: Pools, engine: str) -> None:
    check(pools, engine, 20)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_many_random_programs_match_by_mpis_rules(pools: Pools, engine: str) -> None:
    check(pools, engine, 500)
