"""How near a simulation comes to what was measured on this machine, with constants fitted on other traces.

    python benchmarks/simulated_beside_measured.py            2 ranks, 4 KiB to 16 MiB
    python benchmarks/simulated_beside_measured.py -n 2 --calls 50 --json beside.json

For every size and algorithm some calls are recorded. Every second one is what the machine's constants are fitted on,
and the others are compared; then once more with constants that are fitted on half and twice the size, where caches may
end in between. What is played are the programs that ran, window by window as the engine ran them, each rank beginning
as late as it did. A call's makespan is from the first rank's start to the last one's end.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import ringtree
from ringtree.bench.machine import describe
from ringtree.bench.predicted import shared_memory
from ringtree.ir.lower import lower
from ringtree.ir.program import Program
from ringtree.ir.trace import Event, Trace
from ringtree.ir.units import duration, size
from ringtree.plan import steps_for
from ringtree.runtime.communicator.calls.binding import part_of, window
from ringtree.runtime.engines.shm import staging
from ringtree.runtime.types import BY_LABEL
from ringtree.simulate import Conditions, play
from ringtree.simulate.fit import fit
from ringtree.simulate.windows import as_run
from ringtree.topology import Topology

SIZES = [1 << k for k in range(12, 25, 2)]
"""4 KiB to 16 MiB: those that are compared. Half and twice of each are fitted on."""
CASES = [
    ("all_reduce", "ring"), ("all_reduce", "one_shot"), ("all_reduce", "double_tree"), ("broadcast", "chain"),
    ("all_to_all", "pairwise"),
]  # fmt: skip
PLAYED = 9
"""Of the recorded calls, those that are played too."""
GOAL = 0.25


Case = tuple[str, str]


def record(comm: ringtree.Communicator, calls: int) -> dict[tuple[Case, int], Trace]:
    """A trace of calls of each case and size, a barrier before each, so that the ranks begin together."""
    found = {}
    for nbytes in sorted({nbytes * times // 2 for nbytes in SIZES for times in (1, 2, 4)}):
        for case in CASES:
            call = _call(comm, case, nbytes)
            for _ in range(5):
                call()
            with comm.trace() as recording:
                for _ in range(max(min(calls, (1 << 28) // nbytes), 5)):
                    comm.barrier()
                    call()
            found[case, nbytes] = recording.trace
    return found


def _call(comm: ringtree.Communicator, case: Case, nbytes: int) -> Callable[[], object]:
    collective, algorithm = case
    x = np.ones(nbytes // 4, np.float32)
    if collective == "broadcast":
        return lambda: comm.broadcast(x, algorithm=algorithm)
    out = np.empty_like(x)
    return lambda: getattr(comm, collective)(x, out=out, algorithm=algorithm)


def single_calls(trace: Trace, collective: str) -> list[Trace]:
    """The calls of the collective one by one: on each rank each has as many messages."""
    mine = _only(trace, collective)
    number = np.zeros(len(mine), np.int64)
    repeated = sum(1 for _ in _barriers(trace))
    for rank in range(trace.ranks):
        here = np.flatnonzero(mine.rank == rank)
        here = here[np.argsort(mine.start_s[here], kind="stable")]
        done = mine.kind[here] != Event.STALL
        each = done.sum() // repeated
        number[here] = np.minimum((np.cumsum(done) - done) // each, repeated - 1)
    return [mine.take(number == k) for k in range(repeated)]


def _only(trace: Trace, collective: str) -> Trace:
    """The collective's own events, without the barriers between its calls."""
    of = [k for k, name in enumerate(trace.calls) if name.startswith(collective)]
    return trace.take(np.isin(trace.call, of))


def _barriers(trace: Trace) -> Iterator[float]:
    """When each barrier began, by rank 0."""
    of = next(k for k, name in enumerate(trace.calls) if name.startswith("barrier"))
    first = np.flatnonzero((trace.call == of) & (trace.rank == 0) & (trace.kind == Event.WAIT))
    rounds = (trace.ranks - 1).bit_length()
    yield from np.sort(trace.start_s[first])[::rounds].tolist()


def programs(case: Case, ranks: int, nbytes: int) -> tuple[Program, ...]:
    """The programs that the engine runs for the call, windows written out."""
    collective, algorithm = case
    memory = shared_memory(ranks)
    root = 0 if collective == "broadcast" else None
    schedule = steps_for(algorithm, collective, ranks, root, nbytes, memory).apply(algorithm, collective, ranks, root)
    part = part_of(schedule, 0)
    elements = window(part, memory.slot_bytes, BY_LABEL["float32"])
    chunk = -(-nbytes // 4 // schedule.chunks)
    return as_run(lower(schedule), -(-chunk // elements), min(elements, chunk) * 4 * part.widest, root is not None)


def simulated_s(case: Case, nbytes: int, calls: list[Trace], topology: Topology) -> float:
    """The median makespan of some of the calls, each rank beginning when it did."""
    ranks = calls[0].ranks
    code, found = programs(case, ranks, nbytes), []
    for one in calls[:: max(len(calls) // PLAYED, 1)]:
        begins = [float(one.start_s[one.rank == rank].min()) for rank in range(ranks)]
        late = {rank: s - min(begins) for rank, s in enumerate(begins)}
        played = play(code, topology, nbytes, conditions=Conditions(delay_s=late), slots=staging(ranks)[0])
        found.append(played.time_s)
    return median(found)


def compared(traces: dict[tuple[Case, int], Trace]) -> list[dict[str, Any]]:
    rows = []
    for nbytes in SIZES:
        for case in CASES:
            calls = single_calls(traces[case, nbytes], case[0])
            same = fit([Trace.concatenate(calls[::2])])
            near = fit([_only(traces[case, other], case[0]) for other in (nbytes // 2, nbytes * 2)])
            constants = {key: getattr(same, key) for key in ("message_s", "step_s", "copy_Bps", "reduce_Bps")}
            rows.append(
                {
                    "collective": case[0],
                    "algorithm": case[1],
                    "nbytes": nbytes,
                    "measured_s": median(one.makespan_s for one in calls[1::2]),
                    "simulated_s": simulated_s(case, nbytes, calls[1::2], same),
                    "simulated_by_other_sizes_s": simulated_s(case, nbytes, calls[1::2], near),
                    "constants": {**constants, "latency_s": float(same.latency_s[0])},
                }
            )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--ranks", type=int, default=2)
    parser.add_argument("--calls", type=int, default=100, help="recorded of each (default 100; fewer of long ones)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures, and the machine's")
    args = parser.parse_args()
    traces = ringtree.spawn(record, args.ranks, args.calls, pin=True)[0]
    rows = compared(traces)
    print(f"{args.ranks} ranks on {describe()['cores']} cores of {describe()['cpu']}")
    print("| collective | algorithm | bytes | measured | simulated | ratio | by other sizes | ratio |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    within = [0, 0]
    for r in rows:
        words = [r["collective"], r["algorithm"], size(r["nbytes"]), duration(r["measured_s"])]
        for k, key in enumerate(("simulated_s", "simulated_by_other_sizes_s")):
            ratio = r[key] / r["measured_s"]
            near = abs(ratio - 1) <= GOAL
            within[k] += near
            words += [duration(r[key]), f"{ratio:.2f}{'' if near else ' *'}"]
        print(f"| {' | '.join(words)} |")
    print(f"\nwithin {GOAL:.0%}: {within[0]} of {len(rows)}; by other sizes {within[1]} (* is not)")
    if args.json:
        args.json.write_text(json.dumps({"machine": describe(), "ranks": args.ranks, "rows": rows}, indent=1) + "\n")
    return 0 if within[0] == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
