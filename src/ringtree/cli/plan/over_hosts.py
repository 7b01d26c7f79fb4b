"""`ringtree plan --hosts`: what ranks on several hosts choose, and why. No job is started."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from ringtree.bench.machine import usable_cores
from ringtree.cli import table
from ringtree.cli.arguments.byte_sizes import sizes_of
from ringtree.cli.arguments.hosts import host_of_ranks, latency, link_rate
from ringtree.cli.arguments.subject import given
from ringtree.cli.options.planning.plan import OF_CLUSTERS
from ringtree.cli.plan import records
from ringtree.files.replacing import replace_with_json
from ringtree.ir.collective import collective as find_collective
from ringtree.ir.units import bandwidth, count, duration, line_rate, size
from ringtree.plan import HostCandidate, candidates_over_hosts, priced_at
from ringtree.plan.nesting import NESTED, typed
from ringtree.price import BUILT_IN, Hosts, SharedMemory, over_hosts
from ringtree.price.bounds import Bounds, LowerBound
from ringtree.price.hosts import BANDWIDTH_BPS, LATENCY_S, PAYLOAD_SHARE, WIRE_MESSAGE_S, NetworkCost
from ringtree.price.over_hosts import HostQuote
from ringtree.runtime import tuned
from ringtree.runtime.engines.shm import staging

OTHERS = ("ranks", "topology", *OF_CLUSTERS)
"""Options of `ringtree plan` that hosts cannot have."""
USUAL = ("8", "64M", 8.0)
"""The first size, the last and the factor between them."""
BESIDE = "1ms"
NAMES = ("size (B)", "algorithm", "pieces", "channels", "windows", "time (us)", "cut (us)", "of cut")


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A size: the candidates, fastest first, the first as it is cut; the parts of its time; the lower bound; and the
    first candidate at another latency."""

    nbytes: int
    found: Sequence[HostCandidate]
    quote: HostQuote
    bound: LowerBound
    other: HostCandidate

    @property
    def chosen(self) -> HostCandidate:
        """The call's algorithm."""
        return self.found[0]

    @property
    def cut_s(self) -> float:
        """The time that the narrowest cut of the network needs."""
        return max(self.bound.bandwidth_s, self.bound.latency_s)


def run(args: argparse.Namespace) -> int:
    """Prints a table by size, and the reasons. Returns the exit code; ValueError for options that do not fit."""
    if strange := given(args, OTHERS):
        raise ValueError(
            f"{strange[0]} does not apply to --hosts: expected --hosts, --rate, --latency or --tuned alone"
        )
    find_collective(args.collective)
    here, others = hosts_asked(args), latency(args.beside or BESIDE, "--beside")
    far = _at(here, others)
    bounds = Bounds(over_hosts.network(here))
    rows = [_row(args.collective, here, far, bounds, nbytes) for nbytes in sizes_of(args, USUAL)]
    for line in lines(args.collective, here, far, rows, every=args.all):
        print(line)
    if args.json:
        replace_with_json(args.json, _record(args.collective, here, far, rows))
    return 0


def hosts_asked(args: argparse.Namespace) -> Hosts:
    """The hosts of the options: their ranks and network as given, else as in the tuned file, else assumed."""
    path = Path(args.tuned or tuned.location())
    known = tuned.read(path, anywhere=True) if args.tuned else tuned.tuned_here()
    network = None if known is None else known.network
    if args.hosts is not None:
        host_of = host_of_ranks(args.hosts)
    elif known is not None and known.host_of:
        host_of = known.host_of
    else:
        raise ValueError(f"{path}: no hosts were measured; expected --hosts with the ranks of each host, such as 2,2,2")
    found = network or NetworkCost(LATENCY_S, BANDWIDTH_BPS, "assumed; `ringtree tune` over the hosts measures them")
    if given := " and ".join(name for name in ("rate", "latency") if getattr(args, name)):
        found = replace(
            found,
            latency_s=latency(args.latency) if args.latency else found.latency_s,
            bandwidth_Bps=link_rate(args.rate) * PAYLOAD_SHARE if args.rate else found.bandwidth_Bps,
            source=f"{given} as given" + (f", else {network.source}" if network and given.count("and") == 0 else ""),
        )
    parameters, cores = (BUILT_IN, usable_cores()) if known is None else (known.parameters, known.cores)
    memory = SharedMemory(cores, *staging(len(host_of), latency_s=found.latency_s), parameters)
    message_s = found.message_s if network else WIRE_MESSAGE_S
    return Hosts(host_of, memory, found.latency_s, found.bandwidth_Bps, 1.0, found.source, message_s)


def _at(hosts: Hosts, latency_s: float) -> Hosts:
    """The same hosts with another latency between them, and the staging of groups that meet it."""
    slots, slot_bytes = staging(len(hosts.host_of), latency_s=latency_s)
    return replace(hosts, latency_s=latency_s, memory=replace(hosts.memory, slots=slots, slot_bytes=slot_bytes))


def _row(collective: str, here: Hosts, far: Hosts, bounds: Bounds, nbytes: int) -> PlannedCall:
    root = 0 if find_collective(collective).rooted else None
    found, other = (candidates_over_hosts(collective, hosts, root, nbytes) for hosts in (here, far))
    if nbytes & (nbytes - 1):  # a call's choice is that of the next power of two, its time is not
        found = tuple(priced_at(c, collective, here, root, nbytes) for c in found)
        other = (priced_at(other[0], collective, far, root, nbytes),)
    schedule = found[0].steps.apply(found[0].algorithm, collective, len(here.host_of), root)
    quote = over_hosts.quote(schedule, here, nbytes)
    found = (replace(found[0], time_s=quote.seconds), *found[1:])
    return PlannedCall(nbytes, found, quote, bounds.bound(collective, nbytes), other[0])


def lines(collective: str, here: Hosts, far: Hosts, rows: Sequence[PlannedCall], every: bool = False) -> Iterator[str]:
    """Yields the table and the reasons. `every`: all candidates of each size."""
    yield f"# {collective} over {_hosts(here)}, predicted"
    yield f"# network: {_network(here)} ({here.measured})"
    memory = here.memory
    staged = f"{memory.slots} staging slots of {size(memory.slot_bytes)} a rank"
    yield f"# hosts: {count(memory.cores, 'core')} each, {staged}; {memory.parameters.source}"
    yield "#"
    at = f"at {duration(far.latency_s)} (us)"
    shown = [(row, c) for row in rows for c in (row.found if every else row.found[:1])]
    widths = [13, max(11, *(len(c.label) + 2 for _, c in shown)), 8, 10, 9, 12, 12, 8, len(at) + 2]
    yield f"{table.head((*NAMES, at), widths)}  by"
    for row, candidate in shown:
        yield _line(collective, here, row, candidate, widths)
    yield "#"
    for row in rows:
        for line in _why(row):
            yield f"# {line}"
    for line in _runs(rows):
        yield f"# {line}"


def _line(collective: str, here: Hosts, row: PlannedCall, c: HostCandidate, widths: Sequence[int]) -> str:
    first = c is row.chosen
    root = 0 if find_collective(collective).rooted else None
    windows = over_hosts.windows(c.steps.apply(c.algorithm, collective, len(here.host_of), root), here, row.nbytes)
    pieces = max(c.steps.pieces, 1) * c.steps.pipeline
    times = table.microseconds(c.time_s), table.microseconds(row.cut_s), f"{row.cut_s / c.time_s:.0%}"
    other = table.microseconds(row.other.time_s) if first else ""
    cells = (row.nbytes, c.label, pieces, c.steps.channels, windows, *times, other)
    return f"{table.row(cells, widths)}  {_other(row) if first else ''}".rstrip()


def _other(row: PlannedCall) -> str:
    channels = row.other.steps.channels
    beside = f", {count(channels, 'channel')}" if channels != row.chosen.steps.channels else ""
    return ("the same" if row.other.label == row.chosen.label else row.other.label) + beside


def _why(row: PlannedCall) -> Iterator[str]:
    """Yields the reason for the choice, and what its time is made of."""
    q, after = row.quote, row.found[1] if len(row.found) > 1 else None
    beside = "nothing else serves"
    if after is not None:
        more = after.time_s / row.chosen.time_s - 1
        longer = f"{more:.0%} longer" if more > 0 else f"{-more:.0%} less"
        beside = f"next, {after.label} takes {longer if abs(more) >= 0.005 else 'as long'}"
    parts = f"the network {duration(q.network_s)}, memory {duration(q.memory_s)}, messages {duration(q.messages_s)}"
    yield f"{size(row.nbytes)}: {row.chosen.label} takes {duration(q.seconds)}: {parts}; {beside}"


def _runs(rows: Sequence[PlannedCall]) -> Iterator[str]:
    """Yields a line per run of sizes with the same algorithm, a nested one also as it is typed, and the narrowest
    cut."""
    for label, run in groupby(rows, key=lambda row: row.chosen.label):
        mine = list(run)
        first, last, chosen = size(mine[0].nbytes), size(mine[-1].nbytes), mine[0].chosen
        as_typed = f"; `{typed(chosen.steps.options)}` in other commands" if chosen.algorithm == NESTED else ""
        yield f"{label} {f'from {first} to {last}' if len(mine) > 1 else f'at {first}'}{as_typed}"
    yield f"the network's cut: {rows[-1].bound.bottleneck}"


def _hosts(hosts: Hosts) -> str:
    each = ", ".join(str(hosts.host_of.count(host)) for host in sorted(set(hosts.host_of)))
    return f"{count(len(hosts.host_of), 'rank')} on {count(len(set(hosts.host_of)), 'host')} ({each})"


def _network(hosts: Hosts) -> str:
    line = line_rate(hosts.bandwidth_Bps / PAYLOAD_SHARE)
    message = f"{duration(hosts.latency_s)} a message and {duration(hosts.message_s)} of a core at each end"
    return f"{message}, {bandwidth(hosts.bandwidth_Bps)} of payload each way ({line})"


def _record(collective: str, here: Hosts, far: Hosts, rows: Sequence[PlannedCall]) -> dict[str, Any]:
    def candidate(c: HostCandidate) -> dict[str, Any]:
        return {"algorithm": c.algorithm, "label": c.label, "steps": str(c.steps), "time_us": c.time_s * 1e6}

    return {
        "collective": collective,
        "hosts": list(here.host_of),
        "network": tuned.network_as_json(NetworkCost(here.latency_s, here.bandwidth_Bps, "", here.message_s))
        | {"source": here.measured},
        "beside_latency_s": far.latency_s,
        "cut": records.cut(rows[-1].bound),
        "rows": [
            {
                "nbytes": row.nbytes,
                **candidate(row.chosen),
                "channels": row.chosen.steps.channels,
                "windows": row.quote.windows,
                **{f"{name}_us": getattr(row.quote, f"{name}_s") * 1e6 for name in ("network", "memory", "messages")},
                "bound_us": row.cut_s * 1e6,
                "beside": candidate(row.other),
                "candidates": [candidate(c) for c in row.found],
            }
            for row in rows
        ],
    }
