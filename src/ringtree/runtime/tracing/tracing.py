"""Traces of all ranks while a block of a program runs: `with comm.trace() as recording`.

Recorded are collective calls and messages between two ranks, the communicator's own and those of the groups that were
made from it, and the spans of the program's own work: `with comm.span("forward 3")`. One-sided access is not.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ringtree.ir.trace import Trace
from ringtree.ir.units import count
from ringtree.runtime.communicator.composite import CompositeCall
from ringtree.runtime.communicator.lifetime import Gone
from ringtree.runtime.engines.protocols import Recorded
from ringtree.runtime.tracing.clocks import ClockReading, aligned, read_clocks
from ringtree.runtime.tracing.parts import RankRecording, What, merge
from ringtree.runtime.tracing.spans import Spans

if TYPE_CHECKING:
    from typing_extensions import Self

    from ringtree.runtime.communicator.communicator import Communicator

MOST_EVENTS = 1 << 20
"""The most events of one rank in one group: 40 MB, taken as they fill."""


class Recording:
    """Records while its block runs. Afterwards every rank has the `trace` of all ranks, which leave the block together;
    if the block raised, only this rank's own events, without a synchronization."""

    def __init__(self, communicator: Communicator, most_events: int = MOST_EVENTS) -> None:
        if not 1 <= most_events < 1 << 62:
            raise ValueError(f"most_events is {most_events}; expected at least 1, and less than 2^62")
        self._communicator, self._most_events = communicator, most_events
        self._before: dict[Communicator, dict[What, tuple[int, int]]] = {}  # events and dropped ones that are another's
        self._parts: list[RankRecording] = []
        self.clocks: list[ClockReading] = []
        """The clocks of other hosts, on rank 0, when the recording began."""
        self._trace: Trace | None = None

    @property
    def trace(self) -> Trace:
        """The trace of all ranks. RuntimeError: until the block has ended."""
        if self._trace is None:
            raise RuntimeError("a recording has its trace when its block has ended")
        return self._trace

    def __enter__(self) -> Self:
        if self._before or self._parts:
            raise RuntimeError("a recording records once; comm.trace() makes another")
        with CompositeCall(self._communicator._fail, "trace", alike=(Exception,)):
            self.read_clocks()
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        whole = self._communicator
        try:
            if error is None:
                for communicator in self._before:
                    communicator._calls.settle()
        finally:
            parts = self.stop()
            self._trace = merge(whole.size, parts, whole._parameters.key, self.facts(), whole.hosts)
        if error is None and not isinstance(whole._endpoint, Gone):
            with CompositeCall(whole._fail, "trace"):
                # a rank whose block raised, and which makes another call here, raises Mismatch
                whole._calls.synchronize_for("the end of a trace", False)
                gathered = whole.all_gather_object((parts, self.clocks, read_clocks(whole)))
            clocks = aligned(*gathered[0][1:])
            everybodys = [part for given, _, _ in gathered for part in given]
            self._trace = merge(whole.size, everybodys, whole._parameters.key, self.facts(), whole.hosts, clocks)

    @property
    def hosts(self) -> tuple[int, ...]:
        """The number of each rank's host."""
        return self._communicator.hosts

    def read_clocks(self) -> None:
        """Reads the clocks of all hosts. All ranks call it, and go on together."""
        self.clocks = read_clocks(self._communicator)
        if len(set(self.hosts)) > 1:  # the reading takes a while, host after host
            self._communicator.barrier()

    def start(self) -> None:
        """Begins, with the next call of each group."""
        for group in (self._communicator, *self._communicator._made_from()):
            self.admit(group)

    def stop(self) -> list[RankRecording]:
        """Ends the recording once the running call has ended. Returns what this rank recorded."""
        for communicator in list(self._before):
            self.leave(communicator)
        return self._parts

    def admit(self, communicator: Communicator) -> None:
        """Records this group too, from its next call on."""
        if communicator._spans is None:
            communicator._endpoint.record(self._most_events)
            communicator._spans = Spans(self._most_events)
        so_far = _recorded(communicator)
        self._before[communicator] = {what: (len(all.kind), all.dropped) for what, all in so_far.items()}
        communicator._recordings.append(self)

    def leave(self, communicator: Communicator) -> None:
        """Takes what this group recorded; it goes on only where another recording wants it."""
        communicator._recordings.remove(self)  # first: the group's close leaves it, too, and may come meanwhile
        before = self._before.pop(communicator)
        recorded = _recorded(communicator)
        if not communicator._recordings:
            communicator._endpoint.record(0)
            communicator._spans = None
        names = self._communicator._parameters.names
        members = tuple(names.index(name) for name in communicator._parameters.names)
        for what, whole in recorded.items():
            events, dropped = before[what]
            columns: list[Any] = [column[events:] for column in whole[:-2]]
            mine = Recorded._make([*columns, whole.calls, whole.dropped - dropped])
            programs = communicator._calls.plans.programs() if what == "calls" else {}
            if what == "calls" or len(mine.kind) or mine.dropped:
                key = communicator._parameters.key
                self._parts.append(RankRecording(key, self._communicator.rank, members, mine, programs, what))

    def facts(self) -> dict[str, str]:
        """The source, machine and engine of the trace."""
        return {"source": "measured", "machine": self._machine(), "engine": self._communicator._engine}

    def _machine(self) -> str:
        """This machine with the cores of all ranks: this one may be bound to one of them."""
        system = os.uname()
        cores = self._communicator._calls.cores
        return f"{count(cores, 'core')}, {system.sysname} {system.release} {system.machine}"


def _recorded(communicator: Communicator) -> dict[What, Recorded]:
    """The events that this group's recordings have so far."""
    endpoint, spans = communicator._endpoint, communicator._spans
    calls, messages = endpoint.recorded(), endpoint.recorded_messages()
    assert spans is not None and calls is not None and messages is not None
    return {
        "calls": Recorded._make(calls),
        "messages": Recorded._make(messages),
        "spans": spans.recorded(),
    }
