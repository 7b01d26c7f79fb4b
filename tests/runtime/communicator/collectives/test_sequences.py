"""Random scripts of calls: differing collectives, algorithms, roots, sizes and groups, one right after the other.

A machine writes a script that makes sense (groups exist, what was started is finished), and the ranks then run it
without a pause between calls: one program follows the other with nothing but the protocol between them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ringtree.algorithms import serving
from ringtree.ir.collective import COLLECTIVES
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.cases import Case, kinds, run
from tests.runtime.conftest import Pools

Step = tuple[Any, ...]
SPLITS = ("parity", "halves", "reversed", "without the last")


def split(comm: Communicator, how: str) -> Communicator | None:
    if how == "parity":
        return comm.split(comm.rank % 2)
    if how == "halves":
        return comm.split(2 * comm.rank // comm.size, comm.rank)
    if how == "reversed":
        return comm.split(7, -comm.rank)
    return comm.split(None if comm.rank == comm.size - 1 else 0)


def perform(world: Communicator, script: list[Step]) -> list[str]:
    """Runs the script on this rank; what was wrong, if anything."""
    groups: list[Communicator | None] = [world]
    started: dict[int, tuple[Any, np.ndarray[Any, Any]]] = {}
    wrong = []
    for number, (what, group, *rest) in enumerate(script):
        comm = groups[group]
        if comm is None:
            if what == "split":
                groups.append(None)
            continue
        try:
            if what == "split":
                groups.append(split(comm, rest[0]))
            elif what == "call":
                run(comm, replace(rest[0], root=rest[0].root % comm.size))
            elif what == "start":
                x = np.arange(rest[1], dtype=np.int64) * (comm.rank + 1)
                want = np.arange(rest[1]) * (comm.size * (comm.size + 1) // 2)
                started[rest[0]] = comm.all_reduce(x, async_op=True), want
            elif what == "finish":
                work, want = started.pop(rest[0])
                assert np.array_equal(work.result(), want), "an asynchronous sum is wrong"
            else:
                around(comm, rest[0], number)
        except AssertionError as error:
            wrong.append(f"step {number}, rank {world.rank}: {error}")
    for work, want in started.values():
        assert np.array_equal(work.result(), want)
    for comm in groups:
        if comm is not None and comm.slots_open:
            wrong.append(f"rank {world.rank}: {comm.slots_open} staging slots are still open")
    for comm in groups[1:]:
        if comm is not None:
            comm.close()
    return wrong


def around(comm: Communicator, count: int, tag: int) -> None:
    """Everyone sends to both neighbours at once."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    x, y, z = np.full(count, comm.rank, np.float32), np.empty(count, np.float32), np.empty(count, np.float32)
    with comm.batch() as batch:
        batch.send(x, right, tag)
        batch.send(x, left, tag + 1)
        batch.recv(y, left, tag)
        batch.recv(z, right, tag + 1)
    assert (y == left).all(), "a message from the left is wrong"
    assert (z == right).all(), "a message from the right is wrong"


cases = st.sampled_from(sorted(COLLECTIVES)).flatmap(
    lambda c: st.builds(
        lambda kind, **rest: Case(dtype=kind[0], op=kind[1], **rest),
        collective=st.just(c),
        algorithm=st.sampled_from([None, *serving(c)]),
        kind=st.sampled_from(kinds(c)),
        count=st.just(1) if c == "barrier" else st.sampled_from([0, 1, 3, 17, 1000, 20011]),
        in_place=st.booleans() if c != "barrier" else st.just(False),
        root=st.integers(0, 7),
        async_op=st.booleans(),
    )
)


class Script(RuleBasedStateMachine):
    """Writes a script; runs it when it is complete."""

    pools: Pools
    engine: str

    @initialize(ranks=st.sampled_from([2, 3, 4, 7]))
    def begin(self, ranks: int) -> None:
        self.ranks, self.groups, self.number = ranks, 1, 0
        self.script: list[Step] = []
        self.open: dict[int, int] = {}

    @rule(case=cases, group=st.integers(0, 9))
    def call(self, case: Case, group: int) -> None:
        self.script.append(("call", group % self.groups, case))

    @rule(case=cases, times=st.integers(2, 5))
    def same_call_again_and_again(self, case: Case, times: int) -> None:
        self.script += [("call", 0, replace(case, root=case.root + i)) for i in range(times)]

    @precondition(lambda self: self.groups < 4)
    @rule(how=st.sampled_from(SPLITS), group=st.integers(0, 9))
    def split(self, how: str, group: int) -> None:
        self.script.append(("split", group % self.groups, how))
        self.groups += 1

    @rule(group=st.integers(0, 9), count=st.sampled_from([1, 500, 30000]))
    def start(self, group: int, count: int) -> None:
        self.open[self.number] = group % self.groups
        self.script.append(("start", group % self.groups, self.number, count))
        self.number += 1

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.open)))
        self.script.append(("finish", self.open.pop(number), number))

    @rule(group=st.integers(0, 9), count=st.sampled_from([0, 1, 100, 50000]))
    def exchange(self, group: int, count: int) -> None:
        self.script.append(("around", group % self.groups, count))

    @invariant()
    def makes_sense(self) -> None:
        assert all(step[1] < self.groups for step in self.script)

    def teardown(self) -> None:
        if not hasattr(self, "script"):
            return
        reported = self.pools(self.engine, self.ranks).run(perform, self.script)
        wrong = [line for lines in reported for line in lines]
        assert not wrong, "\n".join([*wrong, *map(str, self.script)])


def check(pools: Pools, engine: str, examples: int) -> None:
    machine = type("Script", (Script,), {"pools": staticmethod(pools), "engine": engine})
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_random_scripts_of_calls(pools: Pools, engine: str) -> None:
    check(pools, engine, 8)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_many_random_scripts_of_calls(pools: Pools, engine: str) -> None:
    check(pools, engine, 400)
