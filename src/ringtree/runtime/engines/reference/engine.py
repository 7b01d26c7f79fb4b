"""The reference engine: ranks are threads of one process, arithmetic is numpy's, and every rule is written out.

It exists to be read and to be compared with: the same programs, the same lanes and slots, the same errors as the
native engine's, a thousand times slower. Its slots are small, so that tests pass through windows and waits for slots.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtree.errors import Mismatch, PeerDied, Poisoned
from ringtree.ir.program import Kind, Space
from ringtree.ir.trace import Event
from ringtree.runtime.bootstrap.in_process import IN_PROCESS
from ringtree.runtime.engines.engine import GroupParameters, JoinedGroup
from ringtree.runtime.engines.reference.fast_path import KnownCalls
from ringtree.runtime.engines.reference.group import Fingerprint, ReferenceGroup, StagingSlot
from ringtree.runtime.engines.reference.kernel import Values, elements, finish, reduce
from ringtree.runtime.engines.reference.messages import ReferenceMessages
from ringtree.runtime.engines.reference.plan import ChunkRange, DecodedInstruction, PreparedProgram, decode
from ringtree.runtime.engines.reference.recorder import Note, Recordings
from ringtree.runtime.engines.reference.survival import ReferenceSurvival
from ringtree.runtime.engines.reference.windows import ReferenceWindows
from ringtree.runtime.limits import start_thread

SLOTS = 8
SLOT_BYTES = 1 << 14
IN_THREADS = True


def join(parameters: GroupParameters) -> JoinedGroup:
    """Ranks are threads of this process: all take the group that the first of them brings."""
    group, *_ = IN_PROCESS.exchange(parameters.bootstrap_group(), ReferenceGroup(parameters.names))
    slots = max(SLOTS, parameters.ranks, parameters.slots)
    endpoint = ReferenceEndpoint(group, parameters.rank, slots, parameters.timeout_s)
    return JoinedGroup(endpoint, slots, SLOT_BYTES, len(os.sched_getaffinity(0)), parameters.cost)


class ReferenceEndpoint(KnownCalls, ReferenceMessages, ReferenceWindows, ReferenceSurvival, Recordings):
    """See ringtree._native.Group for the contract."""

    def __init__(self, group: ReferenceGroup, rank: int, slots: int, timeout_s: float) -> None:
        super().__init__(group, rank, timeout_s)
        self.ranks = len(group.names)
        self.calls = 0
        self.plans: dict[int, tuple[PreparedProgram, Fingerprint]] = {}
        self.prepared = 0
        self.memory: dict[tuple[Any, ...], tuple[int, int | None]] = {}
        self.slots = [StagingSlot(rank, np.empty(SLOT_BYTES, np.uint8)) for _ in range(slots)]
        self.free = group.pools[rank] = deque(self.slots)
        self.received = group.received[rank] = np.zeros((self.ranks, 2), dtype=np.int64)
        self.regions, self.windows = [], []
        self.queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.worker: threading.Thread | None = None
        self.issued = self.finished = 0
        self.failed: dict[int, Exception] = {}  # tickets that raised

    def prepare(
        self,
        instructions: NDArray[np.int32],
        operands: NDArray[np.int32],
        sizes: NDArray[np.int64],
        input_offsets: NDArray[np.int64],
        output_offsets: NDArray[np.int64],
        scratch: int,
        window: int,
        dtype: int,
        op: int,
        collective: str,
        root: int,
        count: int,
        digest: int,
        single_copy: bool = False,
    ) -> int:
        plan = decode(instructions, operands, sizes, input_offsets, output_offsets, scratch, window, dtype, op)
        self.plans[self.prepared] = (plan, Fingerprint(collective, op, dtype, count, root, digest))
        self.prepared += 1
        return self.prepared - 1

    def known(self, key: int) -> None:
        """Ranks are threads of one process, which share what was computed without this."""

    def missing_claimant(self, key: int) -> int:
        return -1

    def publish(self, key: int, value: bytes) -> bool:
        return False

    def forget(self, plan: int) -> None:
        self._find(plan)
        del self.plans[plan]
        self.memory = {signature: known for signature, known in self.memory.items() if known[0] != plan}

    def _find(self, plan: int) -> tuple[PreparedProgram, Fingerprint]:
        if plan not in self.plans:
            known = 0 <= plan < self.prepared
            raise ValueError(
                f"plan {plan} was forgotten" if known else f"no plan {plan}: {self.prepared} were prepared"
            )
        return self.plans[plan]

    # -- calls, at once and queued

    def run(self, plan: int, input: int, output: int) -> None:
        with self.group.changed:
            self.await_(lambda: self.finished == self.issued, "its own asynchronous calls")
        self._perform(*self._find(plan), input, output)

    def start(self, plan: int, input: int, output: int) -> int:
        found = self._find(plan)
        if self.worker is None:
            self.worker = start_thread(self._work, "reference engine")
        self.issued += 1
        ticket = self.issued

        def task() -> None:
            try:
                self._perform(*found, input, output)
            except Exception as caught:  # noqa: BLE001  # wait() of the ticket raises it
                self.failed[ticket] = caught
            with self.group.changed:
                self.finished = ticket
                self.group.changed.notify_all()

        self.queue.put(task)
        return ticket

    def _work(self) -> None:
        while (task := self.queue.get()) is not None:
            task()

    def done(self, ticket: int) -> bool:
        return self.finished >= ticket

    def wait(self, ticket: int, timeout_s: float) -> bool:
        with self.group.changed:
            limit = None if timeout_s < 0 else timeout_s
            if not self.group.changed.wait_for(lambda: self.finished >= ticket, limit):
                return False
        if ticket in self.failed:
            raise self.failed[ticket]
        return True

    # -- interpreting

    def _perform(self, plan: PreparedProgram, fingerprint: Fingerprint, input: int, output: int) -> None:
        call, self.calls = self.calls, self.calls + 1
        self._compare(call, fingerprint)
        scratch = np.empty(plan.scratch, np.dtype(f"V{plan.dtype.itemsize}"))
        bases = {
            int(Space.INPUT): input,
            int(Space.OUTPUT): output,
            int(Space.SCRATCH): scratch.__array_interface__["data"][0],
        }
        note = self.recorder.begin(str(fingerprint), fingerprint.digest) if self.recorder else None
        for window in range(plan.windows):
            _Pass(self, plan, window, bases, f"call {call}, {fingerprint}", note).interpret()
        if plan.op >= 0 and plan.output_count:
            owed = elements(output, plan.output_count, plan.dtype)
            if finish(owed, plan.op, self.ranks, plan.dtype) and note:
                note(Event.REDUCE, -1, owed.nbytes)

    def _compare(self, call: int, mine: Fingerprint) -> None:
        group, other = self.group, None
        with group.changed:
            group.raise_failure(self.rank)
            fingerprints = group.calls.setdefault(call, {})
            other = next((r for r, theirs in fingerprints.items() if theirs != mine), None)
            fingerprints[self.rank] = mine
            if len(fingerprints) == self.ranks:
                del group.calls[call]
            if other is not None:
                raise group.fail(
                    self.rank,
                    Mismatch,
                    f"ranks called different things (call {call}): rank {group.names[other]} {fingerprints[other]}, "
                    f"rank {group.names[self.rank]} {mine}; expected the same call from every rank",
                )

    def await_(
        self, ready: Callable[[], object], what: str, peers: Callable[[], Sequence[int]] = tuple, timeout_s: float = -1
    ) -> None:
        """Group.wait as this rank; without a time of its own the group's."""
        self.group.wait(self.rank, ready, what, peers, self.timeout_s if timeout_s < 0 else timeout_s)

    def counters(self) -> NDArray[np.int64]:
        return self.received.copy()

    def peers(self) -> list[tuple[str, int, float]]:
        left = self.group.left  # its waits are not timed
        return [("left" if rank in left else "running", 0, 0.0) for rank in range(self.ranks)]

    def reset_counters(self) -> None:
        with self.group.changed:
            self.received[:] = 0

    @property
    def slots_open(self) -> int:
        return 0  # a message is an array of its own: nothing is staged

    def inherited(self, ranks: list[int]) -> None:
        self.group.raise_failure(self.rank)

    def check_liveness(self, what: str, ranks: list[int], absent: list[int]) -> None:
        self.group.raise_failure(self.rank)

    def begin_wait(self, what: str, rank: int, timeout_s: float) -> int:
        return -1  # its waits are known to nobody

    def end_wait(self, place: int, gave_up: bool) -> None:
        pass

    def give_up(self, text: str, ranks: list[int]) -> str:
        return text

    def fail_if_bereft(self, what: str) -> None:
        for rank in self.group.causes.copy():
            if rank in self.group.left:
                self.group.poison(PeerDied, self.group.departure(rank, self.rank, what), rank)

    def poison(self, message: str) -> None:
        self.group.poison(Poisoned, message)

    def tell_cause(self, text: str) -> None:
        self.group.causes.setdefault(self.rank, text)

    @property
    def caller(self) -> int:
        return 0  # its ranks are threads themselves

    @property
    def is_within_call(self) -> bool:
        return False  # its end waits for no call

    def set_timeout(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s

    def close(self) -> None:
        with self.group.changed:
            self.group.left.add(self.rank)
            self.group.changed.notify_all()
        if self.worker is not None:
            self.queue.put(None)
            self.worker.join(self.timeout_s)
            self.worker = None


class _Pass:
    """One run of a program over one window of every chunk."""

    def __init__(
        self,
        endpoint: ReferenceEndpoint,
        plan: PreparedProgram,
        window: int,
        bases: dict[int, int],
        where: str,
        note: Note | None,
    ) -> None:
        self.endpoint, self.plan, self.window, self.bases, self.where = (endpoint, plan, window, bases, where)
        self.note: Note = note or (lambda *_: None)
        self.staged: dict[int, StagingSlot] = {}  # slot register -> slot
        self.held: dict[int, StagingSlot] = {}  # message register -> the sender's slot
        self.unreleased: dict[int, deque[StagingSlot]] = {}  # peer -> messages held, oldest first

    def interpret(self) -> None:
        for step in self.plan.steps:
            if step.kind in (Kind.COPY, Kind.REDUCE):
                if nbytes := self._compute(step):
                    self.note(Event(step.kind), step.peer, nbytes, step.chunk)
            elif step.kind == Kind.SIGNAL:
                slot = self.staged[step.register] if step.register >= 0 else None
                self.note(Event.SEND, step.peer, slot.nbytes if slot else 0, step.chunk)
                self.endpoint.group.signal(self.endpoint.rank, step.peer, slot)
            elif step.kind == Kind.WAIT:
                self.note(Event.WAIT, step.peer, self._take(step), step.chunk)
            else:
                self.endpoint.group.release(self.endpoint.rank, self.unreleased[step.peer].popleft())

    def _take(self, step: DecodedInstruction) -> int:
        """Takes the next message; its bytes."""
        group, rank = self.endpoint.group, self.endpoint.rank
        with group.changed:
            lane = group.lanes.setdefault((step.peer, rank), deque())
            what = f"rank {group.names[step.peer]} in {self.where}"
            self.endpoint.await_(lane.__len__, what, lambda: (step.peer,))
            slot = lane.popleft()
            nbytes = 0 if slot is None else slot.nbytes
            self.endpoint.received[step.peer] += (nbytes, 1)
        if slot is not None:
            self.held[step.register] = slot
            self.unreleased.setdefault(step.peer, deque()).append(slot)
        return nbytes

    def _compute(self, step: DecodedInstruction) -> int:
        """Does a copy or a reduction; the bytes of its result."""
        values = [self._read(part) for part in step.sources]
        result = values[0] if step.kind == Kind.COPY else reduce(values, self.plan.op, self.plan.dtype)
        if len(step.targets) > 1:
            result = result.copy()  # a target may be a source
        for part in step.targets:
            if part.space == Space.SLOT:
                self._stage(part.index, step.readers[part.index], result)
            else:
                self._write(part, result)
        return result.nbytes

    def _read(self, part: ChunkRange) -> Values:
        if part.space in (Space.SLOT, Space.MESSAGE):
            slot = (self.staged if part.space == Space.SLOT else self.held)[part.index]
            return elements(slot.address, sum(self.plan.lengths(part, self.window)), self.plan.dtype)
        return np.concatenate([self._memory(part.space, *extent) for extent in self.plan.extents(part, self.window)])

    def _write(self, part: ChunkRange, values: Values) -> None:
        at = 0
        for start, count in self.plan.extents(part, self.window):
            self._memory(part.space, start, count)[:] = values[at : at + count]
            at += count

    def _memory(self, space: int, start: int, count: int) -> Values:
        return elements(self.bases[space] + start * self.plan.dtype.itemsize, count, self.plan.dtype)

    def _stage(self, register: int, readers: int, values: Values) -> None:
        endpoint = self.endpoint
        with endpoint.group.changed:
            what = f"a free slot in {self.where}"
            if not endpoint.free:
                holders = [r for s in endpoint.slots for r in s.receivers]
                endpoint.await_(endpoint.free.__len__, what, lambda: [r for s in endpoint.slots for r in s.receivers])
                self.note(Event.STALL, holders[0] if holders else -1, 0)
            slot = endpoint.free.popleft()
            slot.readers, slot.nbytes = readers, values.nbytes
            if not readers:
                endpoint.free.append(slot)
        slot.data[: values.nbytes] = values.view(np.uint8)
        self.staged[register] = slot
