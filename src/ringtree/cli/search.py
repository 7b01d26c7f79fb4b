"""The quickest schedules for a machine: `ringtree search`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from ringtree.cli import terminal
from ringtree.cli.arguments import subject
from ringtree.cli.arguments.byte_sizes import in_blocks, listed_sizes
from ringtree.cli.arguments.cluster import cluster
from ringtree.cli.arguments.destination import check_destinations
from ringtree.cli.arguments.topology import machine_of, topology
from ringtree.cli.export import format_of, write_schedule
from ringtree.cli.options.cluster import OPTIONS
from ringtree.cli.table import aligned
from ringtree.files.replacing import replace_with_json
from ringtree.ir.units import duration, size
from ringtree.machines.clusters import Cluster
from ringtree.price import Bounds, LowerBound
from ringtree.search import FoundSchedule, candidates
from ringtree.topology import Topology

SHOWN = 10
MOST_NAMED = 16
"""The most ranks whose order is printed."""


def run(args: argparse.Namespace) -> int:
    """Prints the candidates, quickest first, and writes the files. Returns 0."""
    key = format_of(args.export) if args.export else ""
    check_destinations(args, args.export, args.json)
    sizes = listed_sizes(args.bytes, args.collective)
    if len(sizes) > 1:
        raise ValueError(f"--bytes {args.bytes}: expected one size, for each has a best schedule of its own")
    where, names = _where(args), subject.names(args.algorithm)
    if where.ranks < 2:
        raise ValueError(f"{where.name} is one rank, which sends nothing: expected two at least")
    if sizes == [0] and args.bytes is not None:
        raise ValueError(f"--bytes {args.bytes}: nothing to move; expected at least 1 byte")
    sizes, rounded = in_blocks(sizes, args.collective, where.ranks)
    watched, options = partial(terminal.counted, "algorithms"), dict(args.option)
    try:
        found = candidates(args.collective, where, sizes[0], args.root, names, watched, options)
    except TypeError as refusal:
        if not options:
            raise
        raise ValueError(f"--option: {refusal}") from None
    bound = Bounds(where).bound(args.collective, sizes[0], args.root or 0)
    written = [write_schedule(found[0].schedule, args.export, key)] if args.export else []
    if args.json:
        replace_with_json(args.json, _record(args.collective, where, sizes[0], found, bound))
    print(
        "\n".join(
            [*([f"# {rounded}"] if rounded else []), *_lines(args.collective, where, sizes[0], found, bound), *written]
        )
    )
    return 0


def _where(args: argparse.Namespace) -> Topology | Cluster:
    if machine_of(args.topology) is None:
        if options := subject.given(args, OPTIONS):
            raise ValueError(f"{options[0]} applies to machines, not to {args.topology}; leave it out")
        return topology(args.topology, 8 if args.ranks is None else args.ranks)
    if args.sharp:
        raise ValueError("--sharp: no schedule that is searched reduces in the network's switches; leave it out")
    if args.ranks is not None:
        raise ValueError("-n/--ranks applies to shapes: expected --nodes or --gpus for machines")
    return cluster(args)


def _lines(
    collective: str, where: Topology | Cluster, nbytes: int, found: Sequence[FoundSchedule], bound: LowerBound
) -> Iterator[str]:
    of_bytes, ranks = f" of {size(nbytes)}" if nbytes else "", f"{where.ranks} rank{'s' * (where.ranks != 1)}"
    root = "" if (at := found[0].schedule.root) is None else f", root {at}"
    yield f"{collective}{of_bytes}{root} over {ranks} of {where.name}, predicted from links and latencies"
    yield f"at least {duration(bound.time_s)}: {bound.bottleneck}"
    yield ""
    rows = [("algorithm", "how", "time", "in rank order", "of the least")]
    for each in found[:SHOWN]:
        share = f"{100 * bound.time_s / each.seconds:.0f} %" if each.seconds else ""
        rows.append((each.algorithm, _how(each), duration(each.seconds), duration(each.in_order_s), share))
    yield from aligned(rows, 2)
    if further := len(found) - SHOWN:
        if further > 0:
            yield f"and {further} slower ones"
    yield ""
    yield from _orders(found[0])


def _how(each: FoundSchedule) -> str:
    words = [f"{len(each.orders)} orders side by side"] if len(each.orders) > 1 else []
    words += ["another order"] if each.is_arranged and not words else []
    words += [f"{name}={value}" for name, value in each.options]
    words += [f"{each.pieces} pieces"] if each.pieces > 1 else []
    return ", ".join(words) or "rank order"


def _orders(best: FoundSchedule) -> Iterator[str]:
    """The orders of the quickest candidate."""
    if not best.is_arranged:
        yield f"No order of the ranks that was tried is quicker for {best.algorithm} than theirs."
        return
    yield f"{best.algorithm} takes the ranks in this order:"
    root = best.schedule.root or 0  # from there on, as data moves
    for order in (order[root:] + order[:root] for order in best.orders):
        more = f" … ({len(order)} ranks)" if len(order) > MOST_NAMED else ""
        yield "  " + " ".join(map(str, order[:MOST_NAMED])) + more


def _record(
    collective: str, where: Topology | Cluster, nbytes: int, found: Sequence[FoundSchedule], bound: LowerBound
) -> dict[str, Any]:
    rows = [
        {
            "algorithm": each.algorithm,
            "options": dict(each.options),
            "orders": [list(order) for order in each.orders],
            "pieces": each.pieces,
            "time_us": each.seconds * 1e6,
            "in_rank_order_us": each.in_order_s * 1e6,
        }
        for each in found
    ]
    head = {"collective": collective, "root": found[0].schedule.root, "topology": where.name, "ranks": where.ranks}
    head["nbytes"] = nbytes
    return {**head, "bound_us": bound.time_s * 1e6, "bottleneck": bound.bottleneck, "candidates": rows}
