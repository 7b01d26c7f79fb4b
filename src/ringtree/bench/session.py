"""The cases of a table on ranks that live across them: measured, a row at a time, and what a case looks like from
inside, in a call that is recorded after that."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ringtree.bench.machine import describe
from ringtree.bench.measure import Effort, data_of, in_place
from ringtree.bench.record import BenchRow, measured
from ringtree.bench.sweep import SweepCase
from ringtree.ir.trace import Trace
from ringtree.ir.units import count
from ringtree.runtime.bootstrap.local.shared_memory import memory_available_bytes
from ringtree.runtime.launch.spawn import Pool

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator


def check_room(table: Sequence[SweepCase], comm: Communicator | None = None) -> None:
    """MemoryError: if a case's arrays, of all ranks or of those of `comm` on this machine, exceed the memory that is
    available: the kernel would hand out their pages until it ends a process."""
    room = memory_available_bytes()
    for case in table:
        data, ranks = data_of(case), list(range(case.ranks))
        if comm is not None:
            ranks = [rank for rank in ranks if comm.hosts[rank] == comm.hosts[comm.rank]]
        if (nbytes := sum(map(data.array_bytes, ranks))) > room:
            raise MemoryError(
                f"{case.collective} of {case.nbytes} bytes has arrays of {nbytes} bytes for {len(ranks)} "
                f"rank{'s' * (len(ranks) > 1)} of this machine, and {max(room, 0)} are available: expected smaller "
                "sizes (-e) or fewer ranks"
            )


def rows(
    table: Sequence[SweepCase], effort: Effort, *, threads: bool = False, traces: list[Trace] | None = None
) -> Generator[BenchRow, None, None]:
    """Yields the measured row of each case of one table, which all have one number of ranks. `traces` gets a trace of
    one more call of each, made after it was measured. RankFailed: if a rank fails."""
    if not table:
        return
    with Pool(table[0].ranks, threads=threads, pin=True) as pool:
        for case in table:
            yield pool.run(measured, case, effort, threads)[0]
            if traces is not None:
                traces.append(pool.run(traced, case, effort)[0])


def rows_of(
    comm: Communicator, table: Sequence[SweepCase], effort: Effort, *, traces: list[Trace] | None = None
) -> Generator[BenchRow, None, None]:
    """Yields the measured row of each case on this communicator's ranks, all of which iterate over it. `traces` as in
    `rows`, on rank 0 alone."""
    for case in table:
        yield measured(comm, case, effort, threads=False)
        if traces is not None and (trace := traced(comm, case, effort)) is not None:
            traces.append(trace)


def traced(comm: Communicator, case: SweepCase, effort: Effort) -> Trace | None:
    """Traces one in-place call, lined up as the timed ones, after one that warms up; all ranks call this, rank 0 gets
    the trace. The barrier that lines up is left out, unless that is the case."""
    call = in_place(comm, case, effort).call
    call()
    with comm.trace() as recording:
        comm.barrier()
        call()
    if comm.rank:
        return None
    trace = recording.trace
    barriers = np.array([name.startswith("barrier(") for name in trace.calls])
    return trace if barriers.all() else trace.take(~barriers[trace.call])


def in_sequence(traces: Sequence[Trace], name: str) -> Trace:
    """The traces one after another, with a little time between, as one trace of as many ranks as the largest has; the
    calls name their number of ranks where these differ."""
    parts, end_s = [], 0.0
    ranks = max(trace.ranks for trace in traces)
    for trace in traces:
        used, call = np.unique(trace.call, return_inverse=True)
        over = "" if all(other.ranks == ranks for other in traces) else f" over {trace.ranks} ranks"
        shift_s = end_s - trace.start_s.min(initial=np.inf)
        part = replace(
            trace,
            ranks=ranks,
            start_s=trace.start_s + shift_s,
            end_s=trace.end_s + shift_s,
            call=call.astype(np.int32),
            calls=tuple(trace.calls[i] + over for i in used.tolist()) or ("",),
        )
        parts.append(part)
        end_s = part.end_s.max(initial=end_s) + trace.makespan_s / 20
    machine = describe()
    where = f"{count(machine['cores'], 'core')} of {machine['cpu']}, {machine['kernel']}"
    return replace(Trace.concatenate(parts), facts={**traces[0].facts, "name": name, "machine": where})
