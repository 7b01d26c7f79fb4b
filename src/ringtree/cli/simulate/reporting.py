"""The output of `ringtree simulate`: a table over sizes; time, critical path and busiest links of one simulation."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from ringtree.bench.record import bandwidths
from ringtree.draw.text.path import path_lines
from ringtree.draw.text.tables import BandwidthCells, nccl_header, nccl_row
from ringtree.ir.critical_path import critical_path, seconds_by_what
from ringtree.ir.program import Program
from ringtree.ir.schedule import Schedule
from ringtree.ir.units import count, duration, size
from ringtree.simulate import Simulation
from ringtree.topology import Topology

BUSIEST = 5
"""Lines of links."""


@dataclass(frozen=True, slots=True)
class Case:
    """The subject of a simulation: a schedule, or the programs of a file in the rank's view, on `nbytes` bytes.
    `note`: what was chosen for it, in words."""

    schedule: Schedule
    what: Schedule | Sequence[Program]
    nbytes: int
    note: str = ""

    def bandwidths_GBps(self, time_s: float) -> tuple[float, float]:
        """Algorithm and bus bandwidth, as the bench has them."""
        return bandwidths(self.schedule.collective, self.schedule.ranks, self.nbytes, time_s * 1e6)


def print_rounded(rounded: str) -> None:
    """A line on the sizes that were rounded, where there are such."""
    if rounded:
        print(f"# {rounded}")


def print_table(cases: Sequence[Case], place: str, time_s: Callable[[Case], float]) -> None:
    """A line a size, in nccl-tests' columns, each printed when it is known."""
    first = cases[0].schedule
    root, op = -1 if first.root is None else first.root, "sum" if first.promise.reduces else "none"
    print(f"# {first.name} {first.collective} over {first.ranks} ranks, simulated")
    print(f"# on {place}")
    if cases[0].note:
        print(f"# {cases[0].note}")
    print("\n".join(("#", *nccl_header())))
    for case in cases:
        took_s = time_s(case)
        figures = BandwidthCells(took_s * 1e6, *case.bandwidths_GBps(took_s), None)
        each = case.nbytes // first.ranks if first.promise.blocked else case.nbytes  # nccl-tests' count, a rank's
        print(nccl_row(case.nbytes, each, "byte", op, root, figures, None, first.name), flush=True)


def own_time_s(found: Simulation, job: int = 0) -> float:
    """Seconds until that job's last event, from the start of the first job on."""
    mine = found.trace.call == job
    return float(found.trace.end_s[mine].max(initial=0.0))


def described(args: argparse.Namespace, topology: Topology) -> str:
    """The topology in a line: its nodes, links and a rank's own costs."""
    t = topology
    switches = len(t.nodes) - t.ranks
    inner = f", {switches} switch{'es' if switches > 1 else ''}" if switches else ""
    links = ""
    if t.links:
        latency_s, rate_GBps = sorted(set(t.latency_s.tolist())), sorted(set((t.bandwidth_Bps / 1e9).tolist()))
        latencies = " to ".join(duration(s) for s in dict.fromkeys((latency_s[0], latency_s[-1])))
        rates = " to ".join(f"{r:g}" for r in dict.fromkeys((rate_GBps[0], rate_GBps[-1])))
        links = f", {t.links} links of {latencies}" + (f" and {rates} GB/s" if isfinite(rate_GBps[0]) else "")
    in_time = ("message_s", "away_message_s", "step_s")
    costs = [f"{key[:-2].replace('_', ' ')} {duration(getattr(t, key))}" for key in in_time if getattr(t, key)]
    costs += [f"{k[:-4]} {getattr(t, k) / 1e9:.3g} GB/s" for k in ("copy_Bps", "reduce_Bps") if isfinite(getattr(t, k))]
    own = f"; a rank's {', '.join(costs)}" if costs else ""
    return f"{t.name}: {t.ranks} ranks{inner}{links}{own}" + (
        "" if args.topology or args.hosts or args.constants else " (default; set another with --topology)"
    )


def head_lines(case: Case, place: str, time_s: float) -> Iterator[str]:
    """The schedule, its place and its time."""
    s = case.schedule
    algbw, busbw = case.bandwidths_GBps(time_s)
    yield f"{s.name} {s.collective} over {s.ranks} ranks, {case.nbytes:,} bytes in {count(s.chunks, 'chunk')}"
    yield f"on {place}"
    if case.note:
        yield case.note
    yield f"time {duration(time_s)}, algbw {algbw:.2f} GB/s, busbw {busbw:.2f} GB/s"


def detail_lines(found: Simulation, wall_s: float, launch_s: float = 0.0) -> Iterator[str]:
    """The critical path, the busiest links and the cost of the simulation. `launch_s`: from the call to the first
    event."""
    trace = found.trace
    path = critical_path(trace)
    yield f"\ncritical path, {len(path) + (launch_s > 0):,} steps:"
    parts = sorted([*seconds_by_what(path).items(), *[("launch", launch_s)] * (launch_s > 0)], key=lambda p: -p[1])
    shares = [f"{what} {duration(s)} ({s / (trace.makespan_s + launch_s):.0%})" for what, s in parts]
    yield from (
        f"  {line}"
        for line in (*path_lines(trace, path, launch_s=launch_s), f"in all: {', '.join(shares) or 'nothing'}")
    )
    yield "\nbusiest links:"
    yield from (f"  {line}" for line in _busiest(found))
    yield f"\n{len(trace):,} events simulated in {duration(wall_s)}"


def _busiest(found: Simulation) -> list[str]:
    """Links by how long they were busy; those that are alike in one line."""
    alike: dict[tuple[int, int], list[int]] = {}
    share = (1000 * found.link_busy_s / (found.time_s or 1.0)).round().astype(int).tolist()
    nbytes = found.link_nbytes.tolist()
    for link in sorted(range(found.topology.links), key=lambda link: (-share[link], -nbytes[link])):
        if nbytes[link]:
            alike.setdefault((share[link], nbytes[link]), []).append(link)
    lines = []
    for (permille, carried), links in list(alike.items())[:BUSIEST]:
        more = f" and {len(links) - 1:,} other{'s' * (len(links) > 2)} with the same load" if len(links) > 1 else ""
        lines.append(f"{permille / 10:5.1f} %  {size(carried):>8}  {found.topology.link_name(links[0])}{more}")
    if left := sum(map(len, list(alike.values())[BUSIEST:])):
        lines.append(f"{left:,} other links are less busy")
    return lines or ["no link carries data"]
