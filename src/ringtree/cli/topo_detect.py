"""Describe this machine: NUMA nodes and caches, the PCIe tree and what runs below its maximum there, network cards with
rate and RDMA, storage, GPUs. It takes milliseconds and no rights; what a container or a virtual machine does not tell
is assumed, and said.

    ringtree topo detect
"""

from __future__ import annotations

import argparse
from pathlib import Path

WIDTH = 110
"""Columns, into a pipe."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--root", type=Path, default=Path("/"), metavar="DIR", help="read /sys and /proc below it")
    parser.add_argument("--sources", action="store_true", help="also where the figures are from")


def run(args: argparse.Namespace) -> int:
    from ringtree.cli import terminal
    from ringtree.draw.text.machine import head_line, link_lines, note_lines, tree_lines
    from ringtree.topology.detect import detect

    if not args.root.is_dir():
        raise ValueError(f"--root {args.root}: no such folder")
    machine, width = detect(args.root), terminal.columns(WIDTH)
    parts = (tree_lines(machine, width), link_lines(machine, width), note_lines(machine, width, args.sources))
    terminal.show([head_line(machine), *(line for part in parts if part for line in ((), *part))])
    return 0
