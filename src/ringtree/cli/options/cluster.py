"""What names a cluster: a machine, how many of it, and the network between them."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser, named: bool = True) -> None:
    """`named` says whether --topology is one of them, or the command has its own."""
    add = parser.add_argument
    if named:
        add("--topology", metavar="NAME|FILE", help="a machine that `ringtree topo list` knows, or a topology file")
    add("--assume", metavar="A", help="what a topology file does not tell, as gpu=h100-sxm,nic=400Gb/s")
    add("--nodes", type=int, default=1, metavar="N", help="so many of that machine (default 1)")
    add("--gpus", metavar="K", help="only the first K GPUs of each, or those named, as 0,1,4,5")
    add("--nics", metavar="KxRATE", help="other NICs than the machine's own, as 8x400Gb")
    add("--fabric", metavar="F", help="infiniband, roce, efa, slingshot, tcp, … (default: the NICs' own)")
    add("--network", metavar="W", help="rails, fat_tree or torus (default rails)")
    add("--oversubscription", type=float, default=1.0, metavar="X", help="of the network's spine (default 1: none)")
    add("--sharp", action="store_true", help="the network's switches reduce (SHARP)")
