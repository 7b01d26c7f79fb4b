"""Machines as graphs: ranks, switches, and links with latency and bandwidth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree import late

if TYPE_CHECKING:
    from ringtree.topology.graph import Topology
    from ringtree.topology.shapes import cluster, direct, on_hosts, ring, switch, torus
    from ringtree.topology.text import load, parse, save

_NAMES = {
    "graph": ("Topology",),
    "shapes": ("cluster", "direct", "on_hosts", "ring", "switch", "torus"),
    "text": ("load", "parse", "save"),
}

__all__ = [
    "Topology",
    "cluster",
    "direct",
    "load",
    "on_hosts",
    "parse",
    "ring",
    "save",
    "switch",
    "torus",
]

__getattr__ = late.names(__name__, _NAMES)
