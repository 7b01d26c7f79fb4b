"""Machines: this one, those of the catalogue, and those in files.

    ringtree topo list                         the machines and networks that are known by name
    ringtree topo show dgx-h100                its devices and links, how each GPU reaches each other and the NICs
    ringtree topo show topo.xml --html topo.html
    ringtree topo detect                       this machine, from what Linux tells without rights

A file is NCCL's topology XML, hwloc's XML, what `nvidia-smi topo -m` prints, or JSON that --json wrote.
"""

from __future__ import annotations

import argparse
from inspect import cleandoc
from pathlib import Path

from ringtree.cli.options import cluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="topo", metavar="COMMAND", required=True)
    for name, (line, add) in COMMANDS.items():
        one = commands.add_parser(
            name,
            help=line,
            description=cleandoc(add.__doc__ or ""),
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add(one)
        one.set_defaults(work=f"topo_{name}")


def detect(parser: argparse.ArgumentParser) -> None:
    """Describe this machine: NUMA nodes and caches, the PCIe tree and what runs below its maximum there, network cards
    with rate and RDMA, storage, GPUs. It takes milliseconds and no rights; what a container or a virtual machine does
    not tell is assumed, and said.

        ringtree topo detect
        ringtree topo detect --json here.json; ringtree plan all_reduce --topology here.json
        ringtree topo detect --xml topo.xml                as NCCL's topology file
    """
    parser.add_argument("--root", type=Path, default=Path("/"), metavar="DIR", help="read /sys and /proc below it")
    parser.add_argument("--sources", action="store_true", help="also where the figures are from")
    _add_files(parser)


def show(parser: argparse.ArgumentParser) -> None:
    """Draw a machine: what hangs below which NUMA node, what joins its GPUs, how each reaches each other and the NICs,
    and whether directly; then the rings and trees that NCCL would find in it, or those of a graph file; then what is to
    be known of it, traps first.

        ringtree topo show dgx-h100
        ringtree topo show topo.xml --html topo.html       as a page, rings and trees laid over it
        ringtree topo show dgx-a100 --copies 0,4           what is copied from GPU 0 to 4, and over the network
        ringtree topo show matrix.txt --xml topo.xml       as NCCL's topology file
        ringtree topo show azure-nc96 --graph graph.xml    the rings and trees of an NCCL_GRAPH_FILE laid over it
    """
    parser.add_argument("topology", metavar="FILE|NAME", help="a topology file, or a name of `ringtree topo list`")
    cluster.add_arguments(parser, named=False)
    parser.add_argument("--copies", metavar="A,B", help="what is copied between two GPUs, by each way, instead")
    parser.add_argument("--graph", type=Path, metavar="FILE", help="the rings and trees of NCCL's graph file instead")
    parser.add_argument("--sources", action="store_true", help="also where the figures are from")
    _add_files(parser)


def list_(parser: argparse.ArgumentParser) -> None:
    """List the machines and the networks that are known by name."""
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def _add_files(parser: argparse.ArgumentParser) -> None:
    """What a machine is written to."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write it as JSON, which reads back as it is")
    parser.add_argument("--xml", type=Path, metavar="FILE", help="write it as NCCL's topology file (NCCL_TOPO_FILE)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page that any browser opens")


COMMANDS = {
    "detect": ("describe this machine", detect),
    "show": ("draw a machine, of the catalogue or of a file", show),
    "list": ("list the machines and the networks that are known by name", list_),
}
