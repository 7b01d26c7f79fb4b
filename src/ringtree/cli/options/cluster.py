"""Options that describe a cluster: machine, number of nodes, and network."""

from __future__ import annotations

import argparse

from ringtree.cli.options.files import MayBeFile

OPTIONS = ("assume", "nodes", "gpus", "nics", "fabric", "network", "oversubscription", "sharp")
"""The arguments but the machine's name."""


def add_arguments(parser: argparse._ActionsContainer, named: bool = True, counted: bool = True) -> None:
    """`named`: False where the command defines its own --topology; `counted`: False where the number of ranks decides
    how many nodes there are, and how many GPUs each has."""
    add = parser.add_argument
    if named:
        add(
            "--topology",
            type=MayBeFile,
            metavar="NAME|FILE",
            help="a machine from `ringtree topo list`, or a topology file",
        )
    add("--assume", metavar="A", help="facts missing in a topology file, such as gpu=h100-sxm,nic=400Gb/s")
    if counted:
        add("--nodes", type=int, default=1, metavar="N", help="number of nodes (default 1)")
        add("--gpus", metavar="K", help="GPUs used in each node: the first K, or a list such as 0,1,4,5 (3, for GPU 3)")
    add("--nics", metavar="KxRATE", help="NICs of each node, in place of the machine's own, such as 8x400Gb")
    add("--fabric", metavar="F", help="infiniband, roce, efa, slingshot, tcp, … (default: the NICs' own)")
    add("--network", metavar="W", help="rails, fat_tree or torus (default rails)")
    add(
        "--oversubscription",
        type=float,
        default=1.0,
        metavar="X",
        help="oversubscription of the network's spine (default 1: none)",
    )
    add("--sharp", action="store_true", help="the network's switches reduce (SHARP)")


def add_release(parser: argparse._ActionsContainer, otherwise: str) -> None:
    """The option of the library's release, for commands that predict NCCL. `otherwise`: its default in words."""
    parser.add_argument("--nccl", metavar="R", help=f"NCCL's release, such as 2.27 (default: {otherwise})")
