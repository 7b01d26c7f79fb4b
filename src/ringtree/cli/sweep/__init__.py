"""Algorithms priced beside one another: `ringtree sweep`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ringtree.algorithms import check_options, find, serving
from ringtree.algorithms.groups import host_group, takes_groups
from ringtree.bench.record import bandwidths
from ringtree.cli import terminal
from ringtree.cli.arguments import subject, topology
from ringtree.cli.arguments.byte_sizes import byte_sizes, without_data
from ringtree.cli.arguments.cluster import cluster as cluster_of
from ringtree.cli.arguments.cluster import first_ranks, machine_of
from ringtree.cli.arguments.destination import check_destinations, write_page
from ringtree.cli.options.cluster import OPTIONS
from ringtree.cli.options.subject import MOST_RANKS
from ringtree.cli.sweep.table import SweepLine, lines
from ringtree.draw.text.report import PREDICTED
from ringtree.files.replacing import replace_with_json
from ringtree.machines.clusters import Cluster
from ringtree.pages.report_page import report_page
from ringtree.plan import growth
from ringtree.plan.growth import representatives
from ringtree.price import Bounds, scale
from ringtree.topology import Topology, parse
from ringtree.topology.text import SHAPES
from ringtree.verify import prove

Where = Callable[[int], Topology | Cluster]

MOST_TRANSFERS = 1 << 22
"""The most transfers of a schedule that is written out to be priced."""
MOST_PROVED, MOST_PROVED_RANKS, PROVED_RANKS = 100_000, 512, 16
"""Transfers and ranks of a user's own schedule that is proved before it is priced; for a longer one, one over so few
ranks is."""
MOST_COUNTS = 64
"""Numbers of ranks in one table."""


def run(args: argparse.Namespace) -> int:
    """Prints predicted times per algorithm, size and number of ranks. Returns the exit code."""
    check_destinations(args, args.json, args.html)
    where, name, counts, notes = _places(args)
    names = _algorithms(args.collective, args.algorithm)
    sizes = [0]
    if not without_data(args.collective, ["--bytes"] * (args.bytes is not None)):
        sizes = sorted(set(byte_sizes(args.bytes or ("1M" if len(counts) > 1 else "8:8G"))))
    options = dict(args.option)
    check_options(names, args.collective, options)
    priced = (_priced(args.collective, names, where(ranks), ranks, sizes, options) for ranks in counts)
    cases = [case for of_ranks in priced for case in of_ranks]
    notes += [f"{name} with {_in_words(taken)}" for name in names if (taken := _taken(name, args.collective, options))]
    terminal.show(lines(name, cases, notes))
    record = _record(name, cases)
    if args.json:
        replace_with_json(args.json, record)
    if args.html:
        write_page(args.html, report_page({name: record}, "sweep"))
    return 0


def _places(args: argparse.Namespace) -> tuple[Where, str, list[int], list[str]]:
    """A topology, its name, the numbers of ranks to price, and what a reader should know of them."""
    options, shape = subject.given(args, OPTIONS), args.topology.partition(":")[0]
    if shape in SHAPES:
        if options:
            raise ValueError(f"{options[0]} applies to machines, not to the shape {shape}; leave it out")
        counts = whole_node_counts(args.ranks or "8", 1)
        return (lambda ranks: parse(args.topology, ranks)), args.topology, counts, []
    if topology.machine_of(args.topology) is None:
        return _in_file(args, options)
    if args.ranks and "--nodes" in options:
        raise ValueError("--nodes and -n/--ranks both name a number of nodes: expected one of them")
    if args.sharp:
        raise ValueError("--sharp: no schedule that is priced here reduces in the network's switches; leave it out")
    one = Cluster(machine_of(args))
    counts = whole_node_counts(args.ranks, one.ranks) if args.ranks else [args.nodes * one.ranks]
    if max(counts) > MOST_RANKS:
        option = f"-n/--ranks {args.ranks[:40]}" if args.ranks else f"--nodes {args.nodes}"
        raise ValueError(f"{option}: {max(counts):,} ranks; expected at most {MOST_RANKS:,}")
    args.nodes = -(-max(counts) // one.ranks)
    all_of_it = cluster_of(args)

    def where(ranks: int) -> Cluster:
        if ranks < one.ranks:
            return Cluster(first_ranks(one.machine, ranks))
        return replace(all_of_it, nodes=ranks // one.ranks)

    return where, all_of_it.name if len(counts) == 1 else one.name, counts, _notes(args, one)


def _in_file(args: argparse.Namespace, options: Sequence[str]) -> tuple[Where, str, list[int], list[str]]:
    """The place as `_places` has it, of a topology's file, which has one number of ranks, or a trace's."""
    if options:
        raise ValueError(f"{options[0]} applies to machines, not to {args.topology}; leave it out")
    counts = whole_node_counts(args.ranks, 1) if args.ranks else []
    found = topology.topology(args.topology, counts[0] if counts else 8)
    if other := [ranks for ranks in counts if ranks != found.ranks]:
        raise ValueError(f"-n/--ranks {other[0]}: {args.topology} has {found.ranks} ranks; leave -n/--ranks out")
    return (lambda ranks: found), found.name, [found.ranks], []


def _notes(args: argparse.Namespace, one: Cluster) -> list[str]:
    asked = listed_counts(args.ranks) if args.ranks else []
    parts = ", ".join(str(ranks) for ranks in asked if ranks > one.ranks and ranks % one.ranks)
    notes = [f"whole nodes of {one.ranks} ranks, not {parts}"] if parts else []
    if one.machine.gpus:
        notes.append("one schedule alone, without NCCL's channels and protocols, which `ringtree plan` has")
    return notes


def whole_node_counts(text: str, each: int) -> list[int]:
    """The numbers of ranks, to whole nodes of `each` where they are more than one. ValueError as of `listed_counts`."""
    return sorted({n if n <= each else round(n / each) * each for n in listed_counts(text)})


def listed_counts(text: str) -> list[int]:
    """`2:100000` (doubling, and the last), `2:1000:10` or `2,8,64`. ValueError where it is none."""
    try:
        if ":" in text:
            first, last, *factor = (int(word) for word in text.split(":"))
            by = factor[0] if factor else 2
            if len(factor) > 1 or not 1 <= first <= last or by < 2:
                raise ValueError
            found = [last]
            while first < last:
                found.append(first)
                first *= by
        else:
            found = [int(word) for word in text.split(",")]
        if min(found) < 1 or max(found) > MOST_RANKS or len(found) > MOST_COUNTS:
            raise ValueError
    except ValueError:
        raise ValueError(
            f"-n/--ranks {text[:40]}: expected such as 64, 2,8,64 or 2:100000, at most {MOST_COUNTS} of 1 to "
            f"{MOST_RANKS}"
        ) from None
    return found


def _algorithms(collective: str, asked: str | None) -> list[str]:
    """The algorithms asked for; else those that stand for all over any number of ranks, or all that serve."""
    known = serving(collective)
    if asked in (None, "all"):
        return (asked is None and representatives(collective)) or known
    names = subject.names(asked)
    for name in names:
        if collective not in find(name).serves:
            raise ValueError(f"--algorithm {name}: does not serve {collective}; expected some of {', '.join(known)}")
    return names


def _taken(name: str, collective: str, options: Mapping[str, object]) -> dict[str, object]:
    """The given options that the algorithm has."""
    return find(name).accepted(collective, options)


def _in_words(options: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


def _priced(
    collective: str,
    names: Sequence[str],
    where: Topology | Cluster,
    ranks: int,
    sizes: Sequence[int],
    options: Mapping[str, object],
) -> list[SweepLine]:
    links = where if isinstance(where, Topology) else where.topology()
    if links.ranks != ranks:
        raise ValueError(f"{links.name} has {links.ranks} ranks; expected {ranks}")
    times, groups = {}, {}
    for name in names:
        taken = _taken(name, collective, options)
        grouped = {} if "group" in taken else host_group(name, collective, links.hosts.tolist())
        if found := _times_s(collective, name, links, sizes, grouped, taken):
            times[find(name).name] = found
            groups.update({find(name).name: each for each in grouped.values()})
    if not times:
        raise ValueError(
            f"{', '.join(names)} over {ranks:,} ranks need more than {MOST_TRANSFERS:,} transfers; "
            "expected fewer ranks, or leave --algorithm out"
        )
    bounds = Bounds(where)
    return [
        SweepLine(
            collective,
            ranks,
            nbytes,
            {name: found[n] for name, found in times.items()},
            bounds.bound(collective, nbytes),
            groups,
        )
        for n, nbytes in enumerate(sizes)
    ]


def _times_s(
    collective: str,
    name: str,
    links: Topology,
    sizes: Sequence[int],
    grouped: Mapping[str, int],
    taken: Mapping[str, object],
) -> list[float]:
    """At each size; empty where the schedule is too long to write out. `grouped`: as `host_group` finds it;
    `taken`: the options that were given."""
    ranks, cost = links.ranks, find(name).costs[collective]
    if ranks < 2:
        return [0.0] * len(sizes)
    of_hosts = not taken and (grouped or not takes_groups(name, collective))
    if of_hosts and (form := growth.closed(name, collective)):  # a closed form's groups are the hosts
        seconds = form(links, ranks)
        return [seconds(nbytes) for nbytes in sizes]
    if growth.transfers(name, collective, ranks) > MOST_TRANSFERS:
        if not of_hosts or name not in growth.representatives(collective):
            return []
    options = (*grouped.items(), *taken.items())
    schedule = subject.built(name, collective, ranks, None, options)
    if find(name).origin:
        short = ranks <= MOST_PROVED_RANKS and schedule.transfers <= MOST_PROVED
        prove(schedule if short else subject.built(name, collective, PROVED_RANKS, None, tuple(taken.items())))
    if cost.pipelines:
        seconds = scale.InPieces(schedule, links).seconds
        return [seconds(nbytes) for nbytes in sizes]
    return scale.at_sizes(schedule, links, sizes)


def _record(name: str, cases: Sequence[SweepLine]) -> dict[str, Any]:
    """The sweep as a record in bench's format: one row per case and algorithm. A single rank takes no time, and has no
    row."""
    rows = []
    for case in cases:
        for algorithm, time_s in case.times_s.items() if case.ranks > 1 else ():
            algbw, busbw = bandwidths(case.collective, case.ranks, case.nbytes, time_s * 1e6)
            rows.append(
                {
                    "collective": case.collective,
                    "ranks": case.ranks,
                    "nbytes": case.nbytes,
                    "count": case.nbytes,
                    "dtype": "uint8",
                    "op": "sum",
                    "root": -1,
                    "algorithm": algorithm,
                    "time_us": time_s * 1e6,
                    "algbw_GBps": algbw,
                    "busbw_GBps": busbw,
                    "bound_fraction": min(case.bound.time_s / time_s, 1.0),
                    "bottleneck": case.bound.bottleneck,
                    "out_of_place": True,
                    "wrong": None,
                }
            )
    return {"machine": {"topology": name, "source": PREDICTED}, "effort": {}, "rows": rows}
