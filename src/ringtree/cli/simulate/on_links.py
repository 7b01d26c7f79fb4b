"""A schedule, played on described links."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from ringtree.algorithms import build, find
from ringtree.algorithms.groups import host_group
from ringtree.cli.arguments import subject
from ringtree.cli.arguments.byte_sizes import in_blocks, listed_sizes, parse_bytes, without_data
from ringtree.cli.arguments.conditions import conditions
from ringtree.cli.arguments.destination import check_destination, check_destinations, write_page
from ringtree.cli.arguments.place import hosts_here, place, ranks_in_place
from ringtree.cli.options.collective import collective_name
from ringtree.cli.options.files import MEASURED
from ringtree.cli.options.schedules.simulate import WITH
from ringtree.cli.simulate.reporting import (
    Case,
    described,
    detail_lines,
    head_lines,
    own_time_s,
    print_rounded,
    print_table,
)
from ringtree.formats.chrome import write
from ringtree.formats.operations import chakra, goal
from ringtree.ir.schedule import Schedule
from ringtree.ir.units import duration
from ringtree.pages.schedule_page import schedule_page
from ringtree.simulate import Job, Simulation, play
from ringtree.simulate.as_operations import as_operations
from ringtree.topology.text import seconds
from ringtree.verify import ProofError, prove

AS_CALLED = "ringtree.cli.arguments.as_called"
"""The module that cuts schedules, loaded where one is cut."""
_WITH = re.compile(r"(.+\.py:[^:]*|[^:]*):([^:]*):([^:]*)(?::([^:]*))?")


def run(args: argparse.Namespace) -> int:
    """Prints simulated time, critical path and links, or a table over sizes. Returns the exit code."""
    file = subject.from_file(args, "cut") if subject.is_file(args.what) else None
    collective = file.schedule.collective if file else subject.collectives(args.what, args.collective)[0]
    sizes = listed_sizes(args.bytes, collective)
    ranks_in_place(args)
    if args.in_place and not (args.cut and _as_engine(args)):
        raise ValueError(
            "--in-place applies to the engine's own windows: expected --cut, and trace:FILE or --hosts, as well"
        )
    if (args.goal or args.chakra) and (args.others or args.straggler or args.link or args.jitter):
        raise ValueError(
            "--goal and --chakra write the schedule alone: leave --with, --straggler, --link and --jitter out"
        )
    written = _checked_destinations(args)
    if len(sizes) > 1 and written:
        path = written[0]
        raise ValueError(f"{path} can contain one simulation only; expected one size in --bytes")
    ranks = file.schedule.ranks if file else subject.ranks_of(args)
    sizes, rounded = in_blocks(sizes, collective, ranks)
    where = place(args, ranks)
    topology = where(sizes[0])
    host_of = topology.hosts[:ranks].tolist()
    if file:
        _prove(args, file.schedule)
        cases = [Case(file.schedule, file.programs or file.schedule, nbytes) for nbytes in sizes]
    else:
        cases = [_case(args, nbytes, host_of) for nbytes in sizes]
    actual, others = conditions(args, topology), [_other(args, text, host_of) for text in args.others]

    def simulated(case: Case) -> Simulation:
        return play([Job(case.what, case.nbytes), *others], where(case.nbytes), conditions=actual, slots=args.slots)

    if len(sizes) > 1:
        print_rounded(rounded)
        print_table(cases, described(args, topology), lambda case: own_time_s(simulated(case)))
        return 0
    begin_s = time.perf_counter()
    found = simulated(cases[0])
    wall_s = time.perf_counter() - begin_s
    files = _write(args, cases[0], found)  # before anything is printed, which a reader such as head may end
    print_rounded(rounded)
    for line in head_lines(cases[0], described(args, found.topology), own_time_s(found)):
        print(line)
    for job, text in enumerate(args.others, start=1):
        print(f"concurrent {text} ends at {duration(own_time_s(found, job))}")
    for line in (*detail_lines(found, wall_s), *files):
        print(line)
    if args.html:
        write_page(args.html, schedule_page(cases[0].schedule, topology, [found.trace]))
    return 0


def _checked_destinations(args: argparse.Namespace) -> list[Path]:
    """The files that the options ask for, of --chakra's the first. ValueError as `check_destinations` raises it, also
    where another one has the name of any rank's."""
    written: list[Path] = list(filter(None, (args.trace, args.html, args.goal)))
    if not args.chakra:
        check_destinations(args, *written)
        return written
    if args.chakra.name in ("", ".."):
        raise ValueError(f"--chakra {args.chakra}: expected what the names of the files begin with, such as ring")
    first = args.chakra.with_name(f"{args.chakra.name}.0.et")
    of_a_rank, folder = re.compile(rf"{re.escape(args.chakra.name)}\.[0-9]+\.et"), first.resolve().parent
    check_destinations(args, *written, first)
    for path in written:
        if path.resolve().parent == folder and of_a_rank.fullmatch(path.resolve().name):
            check_destination(path, path)  # refused as one path of two files
    return [*written, first]


def _write(args: argparse.Namespace, case: Case, found: Simulation) -> list[str]:
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


def _case(args: argparse.Namespace, nbytes: int, host_of: Sequence[int]) -> Case:
    """An algorithm's schedule over ranks on these hosts, cut for the size if the arguments ask for it."""
    schedule, note = subject.schedule(args, host_of), subject.group_in_words(args, host_of)
    if find(args.what).origin:
        _prove(args, schedule)
    if args.cut:
        as_called = import_module(AS_CALLED)
        memory = hosts_here(args).memory if args.hosts else None
        schedule, _ = as_called.cut(schedule, args.what, nbytes, memory, subject.options(args, host_of))
        if _as_engine(args):
            return Case(schedule, as_called.programs(schedule, nbytes, args.in_place, memory), nbytes, note)
    return Case(schedule, schedule, nbytes, note)


def _as_engine(args: argparse.Namespace) -> bool:
    """Whether --cut plays the engine's programs, window by window: on a machine of measured costs."""
    return args.hosts is not None or (args.topology or "").startswith(MEASURED)


def _prove(args: argparse.Namespace, schedule: Schedule) -> None:
    """Warns of a schedule that its proof refuses; the simulation goes on, but nothing is written for others."""
    try:
        prove(schedule)
    except ProofError as refusal:
        if args.goal or args.chakra:
            raise
        print(f"ringtree simulate: warning: simulated although not proved: {refusal}", file=sys.stderr)


def _other(args: argparse.Namespace, text: str, host_of: Sequence[int]) -> Job:
    """`ring:all_reduce:1M` or `ring:all_reduce:1M:20us`, over ranks on these hosts."""
    parts = _WITH.fullmatch(text)
    if parts is None:
        raise ValueError(f"--with {text!r}: expected {WITH}, such as ring:all_reduce:1M:5us")
    algorithm, named, size, start = parts.groups()
    collective = collective_name(named)
    nbytes, start_s = parse_bytes(size), 0.0 if start is None else seconds(start)
    if nbytes and without_data(collective, ()):
        raise ValueError(f"--with {text}: a {collective} moves no data; expected 0 for its bytes")
    schedule = build(algorithm, collective, len(host_of), **host_group(algorithm, collective, host_of))
    if find(algorithm).origin:
        _prove(args, schedule)
    return Job(schedule, nbytes, start_s)
