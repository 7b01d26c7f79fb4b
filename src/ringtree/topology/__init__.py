"""Machines as graphs: ranks, switches, and links with latency and bandwidth."""

from ringtree.topology.graph import Topology
from ringtree.topology.shapes import cluster, direct, on_hosts, ring, switch, torus
from ringtree.topology.text import load, parse, save

__all__ = ["Topology", "cluster", "direct", "load", "on_hosts", "parse", "ring", "save", "switch", "torus"]
