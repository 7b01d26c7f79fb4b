"""Describe this machine: NUMA nodes and caches, the PCIe tree and what runs below its maximum there, network cards with
rate and RDMA, storage, GPUs. It takes milliseconds and no rights; what a container or a virtual machine does not tell
is assumed, and said.

    ringtree topo detect
    ringtree topo detect --json here.json; ringtree plan all_reduce --topology here.json
    ringtree topo detect --xml topo.xml                as NCCL's topology file
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ringtree.cli import terminal, topo_files, topo_show
from ringtree.machines.clusters import Cluster
from ringtree.machines.detect import detect


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--root", type=Path, default=Path("/"), metavar="DIR", help="read /sys and /proc below it")
    parser.add_argument("--sources", action="store_true", help="also where the figures are from")
    topo_files.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if not args.root.is_dir():
        raise ValueError(f"--root {args.root}: no such folder")
    cluster = Cluster(detect(args.root))
    if not topo_files.write(args, cluster, tuple):
        terminal.show(topo_show.lines(cluster, (), terminal.columns(topo_show.WIDTH), args.sources))
    return 0
