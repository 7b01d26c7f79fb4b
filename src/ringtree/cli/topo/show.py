"""A machine, drawn or written to files: `ringtree topo show`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ringtree.cli import terminal
from ringtree.cli.arguments.cluster import cluster as cluster_of
from ringtree.cli.arguments.destination import check_destinations, write_page
from ringtree.draw.text.lines import Line, TextSpan
from ringtree.draw.text.machine import head_line, link_lines, note_lines, tree_lines
from ringtree.draw.text.machine_matrix import matrix_lines, verdict_lines
from ringtree.draw.text.machine_routes import channel_lines, copy_lines
from ringtree.files.replacing import replacing
from ringtree.ir import units
from ringtree.machines.channels import Channels
from ringtree.machines.clusters import Cluster
from ringtree.machines.copies import side_by_side
from ringtree.machines.files import machine_json, nccl_xml
from ringtree.machines.paths import Paths
from ringtree.nccl.files import graph_xml
from ringtree.nccl.graphs.patterns import graphs
from ringtree.pages.machine_page import machine_page

WIDTH = 110
"""Columns, into a pipe."""


def run(args: argparse.Namespace) -> int:
    """Prints a machine, and writes the files asked for. Returns the exit code."""
    _refuse_undrawn(args)
    cluster = cluster_of(args)
    channels = partial(_channels, cluster, args.graph)
    between = _pair(cluster, args.copies) if args.copies else (0, 1)
    if write(args, cluster, channels, between):
        return 0
    width = terminal.columns(WIDTH)
    if args.copies:
        terminal.show(_copies(cluster, between, width))
    else:
        terminal.show(lines(cluster, channels(), width, args.sources))
    return 0


def _refuse_undrawn(args: argparse.Namespace) -> None:
    """ValueError, in one line, for what is to be drawn where nothing draws it."""
    written = "--json" if args.json else "--xml" if args.xml else ""
    drawn = [f"--{name}" for name in ("graph", "copies") if getattr(args, name)]
    elsewhere = f"in the file of {written}" if written else "beside --copies" if len(drawn) == 2 else ""
    if drawn and elsewhere and not args.html:
        raise ValueError(f"{drawn[0]} is drawn on the terminal or a page (--html), not {elsewhere}; leave it out")


def _pair(cluster: Cluster, text: str) -> tuple[int, int]:
    """Two GPUs by local rank or by name."""
    machine = cluster.machine
    ranks = {machine.devices[g].name: rank for rank, g in enumerate(machine.gpus)}
    ranks |= {str(rank): rank for rank in range(len(machine.gpus))}
    found = [ranks.get(word) for word in text.split(",")]
    if len(found) != 2 or found[0] is None or found[1] is None:
        raise ValueError(f"--copies {text}: expected two of the {len(machine.gpus)} GPUs of {machine.name}, as 0,1")
    return found[0], found[1]


def _copies(cluster: Cluster, between: tuple[int, int], width: int) -> list[Line]:
    source, target = (cluster.machine.devices[cluster.machine.gpus[g]].name for g in between)
    head = TextSpan(f"{cluster.machine.name}: from {source} to {target}, and to another such machine", "head")
    return [(head,), (), *copy_lines(side_by_side(cluster.machine, *between, cluster.fabric), width)]


def lines(cluster: Cluster, graphs: Sequence[Channels], width: int, sources: bool) -> list[Line]:
    """Returns the machine's description for a terminal."""
    machine, paths = cluster.machine, Paths(cluster.machine)
    parts: list[list[Line]] = [
        [head_line(machine), *([(TextSpan(_network(cluster)),)] if cluster.nodes > 1 else [])],
        tree_lines(machine, width),
        link_lines(machine, width),
        matrix_lines(paths, width),
        verdict_lines(paths, width, cluster.fabric),
        channel_lines(graphs),
        note_lines(machine, width, sources),
    ]
    found: list[Line] = []
    for part in filter(None, parts):
        found += [(), *part] if found else part
    return found


def _network(cluster: Cluster) -> str:
    """The network between the nodes, in a line."""
    fabric = cluster.fabric
    over = f"{fabric.name}, {units.duration(fabric.latency_s)} from NIC to NIC" if fabric else ""
    spine = f", oversubscribed {cluster.oversubscription:g} to 1" if cluster.oversubscription > 1 else ""
    sharp = ", its switches reduce (SHARP)" if cluster.sharp else ""
    network = cluster.network.value.replace("_", " ")
    return f"{cluster.nodes} of them, {cluster.ranks} GPUs: {network}{spine} over {over}{sharp}"


def _channels(cluster: Cluster, file: Path | None) -> Sequence[Channels]:
    """The channels of the graph file, else those that NCCL's search finds; empty for a node of one GPU."""
    if file is not None:
        return tuple(graph_xml.read(file, cluster.machine).values())
    return tuple(graphs(cluster).values()) if len(cluster.machine.gpus) > 1 else ()


def write(
    args: argparse.Namespace,
    cluster: Cluster,
    channels: Callable[[], Sequence[Channels]],
    between: tuple[int, int] = (0, 1),
) -> bool:
    """Writes the files that the options ask for and prints their paths; returns whether there were any. Writes no file
    where one of them cannot be written or is an input. `between`: the GPUs whose routes the page shows side by side."""
    forms = ((args.json, machine_json.text), (args.xml, nccl_xml.text))
    asked = [path for path in (args.json, args.xml, args.html) if path]
    check_destinations(args, *asked)
    texts = [(path, text(cluster.machine)) for path, text in forms if path]
    html = ""
    if args.html:
        html = machine_page(cluster, channels(), between)
    for path, data in texts:
        with replacing(path) as file:
            file.write(data.encode())
        print(f"{path}: {cluster.machine.name}")
    if html:
        write_page(args.html, html)
    return bool(asked)
