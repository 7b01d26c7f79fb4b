"""A GOAL schedule or a Chakra execution trace, played on described links."""

from __future__ import annotations

import argparse
import time
from collections import Counter

from ringtree.algorithms import find
from ringtree.cli.arguments import subject
from ringtree.cli.arguments.conditions import conditions
from ringtree.cli.arguments.destination import check_destinations
from ringtree.cli.arguments.place import place, ranks_in_place
from ringtree.cli.simulate.reporting import described, detail_lines
from ringtree.formats.chrome import write
from ringtree.formats.operations import CHAKRA, files_of, format_of, load
from ringtree.formats.operations.communicators import read_communicators
from ringtree.ir.operations import CollectiveCall, OperationGraph, OperationKind
from ringtree.ir.schedule import Schedule
from ringtree.ir.units import count, duration, size
from ringtree.plan.on_topology import choose_on
from ringtree.simulate.as_operations import expand
from ringtree.simulate.operations import play_graph
from ringtree.topology import Topology

OF_SCHEDULES = ("ranks", "collective", "root", "option", "bytes", "cut", "in_place", "others", "slots", "html")
WRITTEN = ("goal", "chakra")


def run(args: argparse.Namespace) -> int:
    """Prints simulated time, critical path and links. Returns the exit code."""
    for name in (*OF_SCHEDULES, *WRITTEN):
        if subject.is_given(getattr(args, name)):
            option = subject.option_name(name)
            raise ValueError(f"{option} applies to schedules; {args.what} is {format_of(args.what)}: leave it out")
    ranks_in_place(args)
    check_destinations(args, args.trace, others=files_of(args.what))
    if args.expand and format_of(args.what) != CHAKRA:
        given = f"{args.what} is {format_of(args.what)}"
        raise ValueError(f"--expand applies to collectives of an execution trace; {given}: leave it out")
    graph = load(args.what, read_communicators(args.groups) if args.groups else None)
    if args.groups and not graph.collectives:
        raise ValueError(f"--groups {args.groups}: {graph.name} has no collectives, whose ranks it names; leave it out")
    _check_expand(args.expand, graph)
    nbytes = max(int(graph.nbytes.max(initial=0)), *(call.nbytes for call in graph.collectives), 0)
    topology = place(args, graph.ranks)(nbytes)
    actual = conditions(args, topology)
    schedules = _schedules(graph, topology, args.expand)
    expanded = expand(graph, schedules, topology) if schedules else graph
    begin_s = time.perf_counter()
    found, left = play_graph(expanded, topology, conditions=actual)
    wall_s = time.perf_counter() - begin_s
    if args.trace:  # before anything is printed, which a reader such as head may end
        write(found.trace, args.trace)
    print(f"{args.what}: {format_of(args.what)} of {count(graph.ranks, 'rank')}: {_operations(graph)}")
    for line in _expanded(graph, schedules):
        print(f"  {line}")
    print("played, not proved: its messages have sizes and no data")
    print(f"on {described(args, topology)}")
    print(f"time {duration(found.time_s)}")
    if left:
        print(f"{count(left, 'message')} sent and never received")
    for line in detail_lines(found, wall_s):
        print(line)
    if args.trace:
        print(f"{args.trace}: `ringtree show` draws it, and ui.perfetto.dev opens it")
    return 0


def _check_expand(algorithm: str | None, graph: OperationGraph) -> None:
    """ValueError: where the algorithm serves none of the graph's collectives."""
    if algorithm is None:
        return
    there, serves = {call.collective: None for call in graph.collectives}, find(algorithm).serves
    if not there:
        raise ValueError(f"--expand {algorithm}: {graph.name} has no collectives to expand; leave it out")
    if not any(collective in serves for collective in there):
        raise ValueError(f"--expand {algorithm}: it serves none of {', '.join(there)}, which {graph.name} has")


def _schedules(graph: OperationGraph, topology: Topology, algorithm: str | None) -> list[Schedule]:
    """The schedule of each collective: that of the named algorithm where it serves it, else the quickest here."""
    serves = find(algorithm).serves if algorithm else ()
    chosen: dict[CollectiveCall, Schedule] = {}
    for call in graph.collectives:
        if call not in chosen:
            named = algorithm if call.collective in serves else None
            chosen[call] = choose_on(call.collective, topology, call.members, call.nbytes, call.root, named)
    return [chosen[call] for call in graph.collectives]


def _operations(graph: OperationGraph) -> str:
    w = graph
    sends, computes = w.kind == OperationKind.SEND, w.kind == OperationKind.COMPUTE
    words = [f"{count(int(sends.sum()), 'send')} of {size(int(w.nbytes[sends].sum()))} in all"] if sends.any() else []
    words += [count(w.count(OperationKind.RECEIVE), "receive")] * bool(w.count(OperationKind.RECEIVE))
    words += [count(len(w.collectives), "collective")] * bool(w.collectives)
    if computes.any():
        none = int((w.compute_s[computes] == 0).sum())
        without = f", {none:,} of no duration" if none else ""
        words.append(
            f"{count(int(computes.sum()), 'computation')} of {duration(float(w.compute_s.sum()))} in all{without}"
        )
    return "; ".join(words) or "no operations"


def _expanded(graph: OperationGraph, schedules: list[Schedule]) -> list[str]:
    """A line for all collectives that are alike, with their algorithm."""
    alike = Counter(
        (call.collective, len(call.members), call.nbytes, schedule.name)
        for call, schedule in zip(graph.collectives, schedules, strict=True)
    )
    return [
        f"{times:,} times {collective} of {size(nbytes)} over {count(ranks, 'rank')}, expanded by {name}"
        for (collective, ranks, nbytes, name), times in alike.items()
    ]
