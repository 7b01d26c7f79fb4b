"""This machine, drawn or written to files: `ringtree topo detect`."""

from __future__ import annotations

import argparse

from ringtree.cli import terminal
from ringtree.cli.topo import show as topo_show
from ringtree.machines.clusters import Cluster
from ringtree.machines.detect import detect


def run(args: argparse.Namespace) -> int:
    """Prints this machine as detected, and writes the files asked for. Returns the exit code."""
    if not args.root.is_dir():
        raise ValueError(f"--root {args.root}: no such folder")
    cluster = Cluster(detect(args.root))
    if not topo_show.write(args, cluster, tuple):
        terminal.show(topo_show.lines(cluster, (), terminal.columns(topo_show.WIDTH), args.sources))
    return 0
