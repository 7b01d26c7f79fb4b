"""This machine, drawn or written to files: `ringtree topo detect`."""

from __future__ import annotations

import argparse
from dataclasses import replace

from ringtree.cli import terminal
from ringtree.cli.topo import show as topo_show
from ringtree.machines.clusters import Cluster
from ringtree.machines.detect import THIS, detect
from ringtree.machines.detect.nvml_state import gpu_states
from ringtree.machines.host.peer_access import gpus_by_name, peer_notes, peer_pairs
from ringtree.machines.sysfs import Sysfs


def run(args: argparse.Namespace) -> int:
    """Prints this machine as detected, and writes the files asked for. Returns the exit code."""
    if not args.root.is_dir():
        raise ValueError(f"--root {args.root}: no such folder")
    machine = detect(args.root)
    states = gpus_by_name(machine, gpu_states()[0].gpus) if args.root == THIS else {}
    pairs = peer_pairs(machine, Sysfs(args.root), states)
    cluster = Cluster(replace(machine, notes=(*machine.notes, *peer_notes(pairs))))
    if not topo_show.write(args, cluster, tuple):
        terminal.show(topo_show.lines(cluster, (), terminal.columns(topo_show.WIDTH), args.sources))
    return 0
