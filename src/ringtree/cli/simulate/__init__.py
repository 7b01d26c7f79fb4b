"""A schedule, played on described links: `ringtree simulate`."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import isfinite

from ringtree.algorithms import REGISTRY, build, find
from ringtree.bench.record import bandwidths
from ringtree.cli.arguments import subject
from ringtree.cli.arguments.byte_sizes import parse_bytes
from ringtree.cli.arguments.conditions import conditions
from ringtree.cli.arguments.destination import check_destination, write_page
from ringtree.cli.arguments.hosts import host_of_ranks
from ringtree.cli.arguments.place import hosts_here, place, ranks_on_hosts
from ringtree.cli.arguments.topology import MEASURED
from ringtree.cli.options.simulate import WITH
from ringtree.draw.text.path import path_lines
from ringtree.draw.text.tables import BandwidthCells, nccl_header, nccl_row
from ringtree.formats.chrome import write
from ringtree.formats.operations import chakra, format_of, goal
from ringtree.ir.critical_path import critical_path, seconds_by_what
from ringtree.ir.program import Program
from ringtree.ir.schedule import Schedule
from ringtree.ir.units import count, duration, size
from ringtree.pages.schedule_page import schedule_page
from ringtree.simulate import Job, Simulation, play
from ringtree.simulate.as_operations import as_operations
from ringtree.topology import Topology
from ringtree.topology.text import seconds
from ringtree.verify import ProofError, prove

AS_CALLED = "ringtree.cli.arguments.as_called"
"""The module that cuts schedules, loaded where one is cut."""
OPERATIONS = "ringtree.cli.simulate.operations"
"""The module that plays files of other simulators, loaded where one is played."""
OF_TRACES = ("groups", "expand")
BUSIEST = 5
"""Lines of links."""
_WITH = re.compile(r"(.+\.py:[^:]*|[^:]*):([^:]*):([^:]*)(?::([^:]*))?")


@dataclass(frozen=True, slots=True)
class _Case:
    """The subject of a simulation: a schedule, or the programs of a file in the rank's view, on `nbytes` bytes."""

    schedule: Schedule
    what: Schedule | Sequence[Program]
    nbytes: int

    def bandwidths_GBps(self, time_s: float) -> tuple[float, float]:
        """Algorithm and bus bandwidth, as the bench has them."""
        return bandwidths(self.schedule.collective, self.schedule.ranks, self.nbytes, time_s * 1e6)


def run(args: argparse.Namespace) -> int:
    """Prints simulated time, critical path and links, or a table over sizes. Returns the exit code."""
    ranks_on_hosts(args)
    if args.what not in REGISTRY and format_of(args.what):
        played: int = import_module(OPERATIONS).run(args)
        return played
    for option in OF_TRACES:
        if subject.is_given(getattr(args, option)):
            raise ValueError(f"--{option} applies to Chakra execution traces; leave it out")
    if args.bytes is None:
        raise ValueError("required: --bytes, the size of the whole vector, such as 64K or 16M")
    if args.in_place and not (args.cut and _as_engine(args)):
        raise ValueError(
            "--in-place applies to the engine's own windows: expected --cut, and trace:FILE or --hosts, as well"
        )
    sizes = [parse_bytes(text) for text in args.bytes.split(",")]
    chakra_file = args.chakra and args.chakra.with_name(f"{args.chakra.name}.0.et")
    written = [args.trace, args.html, args.goal, chakra_file]
    read = [args.what, (args.topology or "").removeprefix(MEASURED)]
    for path in filter(None, written):
        check_destination(path, *read, *(other for other in written if other and other is not path))
        if len(sizes) > 1:
            raise ValueError(f"{path} can contain one simulation only; expected one size in --bytes")
    cases = [_case(args, nbytes) for nbytes in sizes]
    ranks = cases[0].schedule.ranks
    where = place(args, ranks)
    topology = where(cases[0].nbytes)
    actual, others = conditions(args, topology), [_other(text, ranks) for text in args.others]

    def simulated(case: _Case) -> Simulation:
        return play([Job(case.what, case.nbytes), *others], where(case.nbytes), conditions=actual, slots=args.slots)

    if len(sizes) > 1:
        _table(args, cases, topology, simulated)
        return 0
    begin_s = time.perf_counter()
    found = simulated(cases[0])
    wall_s = time.perf_counter() - begin_s
    files = _write(args, cases[0], found)  # before anything is printed, which a reader such as head may end
    _report(args, cases[0], found, wall_s)
    for line in files:
        print(line)
    if args.html:
        write_page(args.html, schedule_page(cases[0].schedule, topology, [found.trace]))
    return 0


def _write(args: argparse.Namespace, case: _Case, found: Simulation) -> list[str]:
    """Writes the events, and what was simulated for other simulators, with computations as long as they take on this
    topology; returns a line for each."""
    lines = []
    if args.trace:
        write(found.trace, args.trace)
        lines.append(f"{args.trace}: `ringtree show` draws it, and ui.perfetto.dev opens it")
    if args.goal or args.chakra:
        graph = as_operations(Job(case.what, case.nbytes), found.topology)
        if args.goal:
            goal.write(args.goal, graph)
            lines.append(f"{args.goal}: LogGOPSim and ATLAHS play it, as `ringtree simulate` does")
        if args.chakra:
            paths = chakra.write(args.chakra, graph)
            lines.append(f"{paths[0]} to {paths[-1].name}: ASTRA-sim plays them, as `ringtree simulate` does")
    return lines


def _case(args: argparse.Namespace, nbytes: int) -> _Case:
    if subject.is_file(args.what):
        found = subject.from_file(args, "cut")
        _warn(found.schedule)
        return _Case(found.schedule, found.programs or found.schedule, nbytes)
    if args.hosts:
        args.ranks = len(host_of_ranks(args.hosts))
    schedule = subject.schedule(args)
    if find(args.what).origin:
        _warn(schedule)
    if args.cut:
        if args.option:
            raise ValueError("--cut chooses the algorithm's options by size; leave --option out")
        as_called = import_module(AS_CALLED)
        memory = hosts_here(args).memory if args.hosts else None
        schedule, _ = as_called.cut(schedule, args.what, nbytes, memory)
        if _as_engine(args):
            return _Case(schedule, as_called.programs(schedule, nbytes, args.in_place, memory), nbytes)
    return _Case(schedule, schedule, nbytes)


def _as_engine(args: argparse.Namespace) -> bool:
    """Whether --cut plays the engine's programs, window by window: on a machine of measured costs."""
    return args.hosts is not None or (args.topology or "").startswith(MEASURED)


def _warn(schedule: Schedule) -> None:
    """Warns of a schedule that its proof refuses; the simulation goes on."""
    try:
        prove(schedule)
    except ProofError as refusal:
        print(f"ringtree simulate: warning: simulated although not proved: {refusal}", file=sys.stderr)


def _other(text: str, ranks: int) -> Job:
    """`ring:all_reduce:1M` or `ring:all_reduce:1M:20us`."""
    parts = _WITH.fullmatch(text)
    if parts is None:
        raise ValueError(f"--with {text!r}: expected {WITH}, such as ring:all_reduce:1M:5us")
    algorithm, collective, size, start = parts.groups()
    return Job(build(algorithm, collective, ranks), parse_bytes(size), 0.0 if start is None else seconds(start))


def _table(
    args: argparse.Namespace,
    cases: Sequence[_Case],
    topology: Topology,
    simulated: Callable[[_Case], Simulation],
) -> None:
    """A line a size, in nccl-tests' columns."""
    first = cases[0].schedule
    root, op = -1 if first.root is None else first.root, "sum" if first.promise.reduces else "none"
    print(f"# {first.name} {first.collective} over {first.ranks} ranks, simulated")
    print(f"# on {described(args, topology)}")
    print("\n".join(("#", *nccl_header())))
    for case in cases:
        time_s = _own_time_s(simulated(case))
        figures = BandwidthCells(time_s * 1e6, *case.bandwidths_GBps(time_s), None)
        print(nccl_row(case.nbytes, case.nbytes, "byte", op, root, figures, None, first.name), flush=True)


def _own_time_s(found: Simulation, job: int = 0) -> float:
    """Until that job's last event, from the start of the first job on."""
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
        "" if args.topology or args.hosts else " (default; set another with --topology)"
    )


def _report(args: argparse.Namespace, case: _Case, found: Simulation, wall_s: float) -> None:
    s = case.schedule
    time_s = _own_time_s(found)
    algbw, busbw = case.bandwidths_GBps(time_s)
    print(f"{s.name} {s.collective} over {s.ranks} ranks, {case.nbytes:,} bytes in {count(s.chunks, 'chunk')}")
    print(f"on {described(args, found.topology)}")
    print(f"time {duration(time_s)}, algbw {algbw:.2f} GB/s, busbw {busbw:.2f} GB/s")
    for job, text in enumerate(args.others, start=1):
        print(f"concurrent {text} ends at {duration(_own_time_s(found, job))}")
    print_parts(found, wall_s)


def print_parts(found: Simulation, wall_s: float) -> None:
    """Prints the critical path and the busiest links."""
    trace = found.trace
    path = critical_path(trace)
    print(f"\ncritical path, {len(path):,} steps:")
    shares = [f"{what} {duration(s)} ({s / trace.makespan_s:.0%})" for what, s in seconds_by_what(path).items()]
    for line in (*path_lines(trace, path), f"in all: {', '.join(shares) or 'nothing'}"):
        print(f"  {line}")
    print("\nbusiest links:")
    for line in _busiest(found):
        print(f"  {line}")
    print(f"\n{len(trace):,} events simulated in {duration(wall_s)}")


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
