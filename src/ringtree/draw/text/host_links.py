"""Hosts of a trace in words: how well their clocks are known, and what went from one to another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ringtree.draw.text.tables import aligned
from ringtree.ir import units
from ringtree.ir.host_clocks import EARLY, host_clocks, hosts_of
from ringtree.ir.host_links import HostLink, host_links
from ringtree.ir.trace import Trace

MOST_LINKS = 16
"""The most links in a table: those of the most bytes."""


def on_hosts(trace: Trace) -> bool:
    """Whether the trace's ranks are on several hosts."""
    return len(np.unique(hosts_of(trace))) > 1


def row_label(trace: Trace, rank: int) -> str:
    """The name of a rank's row, with its host where there are several."""
    return f"rank {rank} host {hosts_of(trace)[rank]}" if on_hosts(trace) else f"rank {rank}"


def clock_lines(trace: Trace) -> list[str]:
    """The number of hosts, and how far the times of two of them may be wrong; none for one host."""
    if not on_hosts(trace):
        return []
    hosts, clocks = units.count(len(np.unique(hosts_of(trace))), "host"), host_clocks(trace)
    if trace.facts.get("source") == "simulated":
        return [hosts]
    if not clocks:
        return [f"{hosts}, whose clocks were not aligned: times of different hosts are not comparable"]
    worst = max(clocks, key=lambda host: clocks[host].error_s)
    lines = [f"{hosts}, clocks aligned to host 0's within {units.duration(clocks[worst].error_s)} (host {worst})"]
    for host, clock in clocks.items():
        if abs(clock.drift) * trace.makespan_s > clock.error_s:
            lines.append(f"host {host}'s clock gained {clock.drift * 1e6:.3g} µs a second, which is corrected")
    if EARLY in trace.facts:
        lines.append(f"{trace.facts[EARLY]} seemed to arrive before it was sent, and was moved within the error")
    return lines


def link_table(trace: Trace) -> list[str]:
    """A row for each link from host to host: messages, bytes, and how long they were under way; none for one host."""
    links = _largest(host_links(trace))
    if not links:
        return []
    rows = [["between hosts", "messages", "bytes", "under way", "median", "rate"]]
    rows += [[_ends(link), f"{link.messages:,}", units.size(link.nbytes), *_times(link)] for link in links]
    return aligned(rows)


def compared_links(both: tuple[Trace, Trace], names: tuple[str, str]) -> list[str]:
    """The same of two traces, side by side; none where neither has hosts."""
    first, second = ({(link.source, link.target): link for link in host_links(trace)} for trace in both)
    ends = [(link.source, link.target) for link in _largest([*(first | second).values()])]
    if not ends:
        return []
    heads = ("bytes", "under way", "median", "rate")
    rows = [["", *(cell for head in heads for cell in ("", head))], ["between hosts", *names * len(heads)]]
    for pair in ends:
        cells = [_cells(found.get(pair)) for found in (first, second)]
        rows.append([f"{pair[0]} to {pair[1]}", *(cell for column in zip(*cells, strict=True) for cell in column)])
    return aligned(rows)


def _largest(links: Sequence[HostLink]) -> list[HostLink]:
    return sorted(
        sorted(links, key=lambda link: -link.nbytes)[:MOST_LINKS], key=lambda link: (link.source, link.target)
    )


def _ends(link: HostLink) -> str:
    return f"{link.source} to {link.target}"


def _times(link: HostLink) -> list[str]:
    return [
        units.duration(link.busy_s),
        units.duration(link.median_s),
        units.bandwidth(link.rate_Bps) if link.rate_Bps else "-",
    ]


def _cells(link: HostLink | None) -> list[str]:
    return ["-"] * 4 if link is None else [units.size(link.nbytes), *_times(link)]
