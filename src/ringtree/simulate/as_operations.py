"""Programs as operation graphs: messages, and computations that take what copies and reductions cost on a topology;
and the collectives of a graph, each expanded into the messages of a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ringtree.ir.lower import lower
from ringtree.ir.operations import GraphBuilder, OperationGraph, OperationKind
from ringtree.ir.program import Program
from ringtree.ir.schedule import Schedule
from ringtree.simulate.play import ALL_IS_WELL
from ringtree.simulate.reading import read
from ringtree.simulate.simulation import Job
from ringtree.simulate.steps import AFTER, ASK, COPY, MARK, REDUCE, SIGNAL, WAIT, busy_s
from ringtree.topology import Topology

MOST_OPERATIONS = 4_000_000
"""The most operations of an expanded graph: some 2 GB when it is played."""
OPERATIONS_PER_TRANSFER = 3
KINDS = {
    COPY: OperationKind.COMPUTE,
    REDUCE: OperationKind.COMPUTE,
    SIGNAL: OperationKind.SEND,
    WAIT: OperationKind.RECEIVE,
}
"""The operation that each kind of step becomes."""


def as_operations(job: Job, topology: Topology) -> OperationGraph:
    """The job's programs, each thread with a processor of its own. Programs that touch a peer's memory directly are
    ValueError: such a message has no receive."""
    programs = lower(job.what) if isinstance(job.what, Schedule) else job.what
    builder = GraphBuilder()
    _Appender(builder, topology, range(len(programs)), 0, 0).append(Job(programs, job.nbytes), {})
    return builder.build(job.called, len(programs))


def expand(graph: OperationGraph, schedules: Sequence[Schedule], topology: Topology) -> OperationGraph:
    """The graph with each of its collectives replaced by its schedule's programs, which begin on each member when
    its operation would, and end when the last of its steps has."""
    w, builder = graph, GraphBuilder()
    first_tag = int(w.tag[w.kind != OperationKind.COLLECTIVE].max(initial=0)) + 1
    spare = int(w.processor.max(initial=0)) + 1
    rows = zip(*(c.tolist() for c in (w.kind, w.rank, w.nbytes, w.peer, w.tag, w.processor, w.compute_s)), strict=True)
    begins: list[dict[int, int]] = [{} for _ in w.collectives]
    for number, (kind, rank, nbytes, peer, tag, processor, compute_s) in enumerate(rows):
        if kind == OperationKind.COLLECTIVE:  # its place in the order of its rank, which takes no time
            begins[tag][rank] = builder.add(OperationKind.COMPUTE, rank, processor=spare + number)
        else:
            builder.add(OperationKind(kind), rank, nbytes, peer, tag, processor, compute_s)
    ends = np.arange(len(w))
    spare += len(w)
    for number, (call, schedule, begin) in enumerate(zip(w.collectives, schedules, begins, strict=True)):
        if len(builder) + OPERATIONS_PER_TRANSFER * schedule.transfers > MOST_OPERATIONS:
            made = f"collective {number}, {call.collective} over {len(call.members)} ranks by {schedule.name}"
            raise ValueError(f"{w.name}: {made}: expanded there are more than {MOST_OPERATIONS:,} operations")
        appender = _Appender(builder, topology, call.members, first_tag + number, spare)
        last = appender.append(Job(lower(schedule), call.nbytes), begin)
        for rank, operation in begin.items():
            ends[operation] = builder.add(OperationKind.COMPUTE, rank, processor=spare + 1)
            for before in (operation, *last.get(rank, ())):
                builder.depend(int(ends[operation]), before)
        spare += 2
    for after, before, at_start in zip(w.after.tolist(), w.before.tolist(), w.at_start.tolist(), strict=True):
        builder.depend(after, before if at_start else int(ends[before]), at_start)
    return builder.build(w.name, w.ranks)


class _Appender:
    """Appends the steps of programs to a graph, those of rank k on rank members[k]: messages with tags, and threads
    on processors, from these numbers on."""

    def __init__(
        self, builder: GraphBuilder, topology: Topology, members: Sequence[int], first_tag: int, processor: int
    ) -> None:
        self.builder, self.topology, self.members = builder, topology, members
        self.first_tag, self.processor = first_tag, processor

    def append(self, job: Job, begin: Mapping[int, int]) -> dict[int, list[int]]:
        """Appends all steps, after the operation of `begin` on each rank; returns the last operation of each thread, by
        rank."""
        steps = read(_programs(job), job.chunk_nbytes, slots=False)
        if np.any(steps.kind == ASK):
            name = job.head.name
            raise ValueError(
                f"{name} touches its peers' memory directly; expected messages alone, as in the text of `ringtree show`"
            )
        columns = (steps.kind, steps.nbytes, steps.sources, steps.peer, steps.channel, steps.number)
        rows = list(zip(*(column.tolist() for column in columns), strict=True))
        lasts_s = busy_s(steps, self.topology, ALL_IS_WELL).tolist()
        reached: list[int] = []  # of each row, the last operation of its thread up to there
        later: list[tuple[int, int]] = []  # an operation, and the row that it waits for
        last: dict[int, list[int]] = {}
        for thread in steps.threads:
            rank = self.members[thread.rank]
            of_rank = last.setdefault(rank, [])
            before, waits = begin.get(rank, -1), list[int]()
            for row in range(thread.first, thread.stop):
                if rows[row][0] == AFTER:
                    waits.append(rows[row][-1])
                elif rows[row][0] != MARK:
                    made = self._add(rank, self.processor + len(of_rank), rows[row], lasts_s[row])
                    if before >= 0:
                        self.builder.depend(made, before)
                    later += [(made, wait) for wait in waits]
                    before, waits = made, []
                reached.append(before)
            of_rank.append(before)
        for made, row in later:
            if row >= 0 and reached[row] >= 0:
                self.builder.depend(made, reached[row])
        return {rank: [operation for operation in of if operation >= 0] for rank, of in last.items()}

    def _add(self, rank: int, processor: int, step: tuple[int, ...], lasts_s: float) -> int:
        kind, nbytes, sources, peer, channel, _ = step
        if KINDS[kind] is OperationKind.COMPUTE:
            worked = nbytes * max(sources - 1, 1)
            return self.builder.add(OperationKind.COMPUTE, rank, worked, processor=processor, compute_s=lasts_s)
        return self.builder.add(KINDS[kind], rank, nbytes, self.members[peer], self.first_tag + channel, processor)


def _programs(job: Job) -> Sequence[Program]:
    assert not isinstance(job.what, Schedule)
    return job.what
