"""Detect this machine; draw machines of the catalogue or of files.

    ringtree topo list                         machines and networks of the catalogue
    ringtree topo show dgx-h100                devices, links, and the path of every GPU to the other GPUs and the NICs
    ringtree topo show topo.xml --html topo.html
    ringtree topo detect                       this machine, from /sys and /proc, without root rights

FILE is NCCL's topology XML, hwloc's XML, output of `nvidia-smi topo -m`, or JSON written by --json.
"""

from __future__ import annotations

import argparse
from inspect import cleandoc
from pathlib import Path

from ringtree.cli.options import cluster
from ringtree.cli.options.files import FileRead, MayBeFile, to_write


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree topo`."""
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
        one.set_defaults(work=f"topo.{name}")


def detect(parser: argparse.ArgumentParser) -> None:
    """Describe this machine: NUMA nodes and caches, the PCIe tree and links below their maximum there, network cards
    with rate and RDMA, storage, GPUs. Takes milliseconds and no root rights. Facts that a container or a virtual
    machine hides are assumed, and the output lists these assumptions. Pairs of NVIDIA's GPUs without access to each
    other, or with slow access, are listed with the reason: the driver's answer by NVML (nvidia-ml-py), root
    complexes, an IOMMU, ACS of bridges (readable by root alone), MIG, a virtual machine.

        ringtree topo detect
        ringtree topo detect --json here.json; ringtree plan all_reduce --topology here.json
        ringtree topo detect --xml topo.xml                as NCCL's topology file
    """
    parser.add_argument("--root", type=FileRead, default=Path("/"), metavar="DIR", help="read /sys and /proc below it")
    parser.add_argument("--sources", action="store_true", help="also print the sources of the figures")
    _add_files(parser)


def show(parser: argparse.ArgumentParser) -> None:
    """Draw a machine: the devices below every NUMA node, the links between GPUs, and the path of every GPU to the other
    GPUs and the NICs, with GPUDirect or without; then the rings and trees that NCCL would find, or those of a graph
    file; then notes on the machine, traps first.

        ringtree topo show dgx-h100
        ringtree topo show topo.xml --html topo.html       as a page, with rings and trees drawn over it
        ringtree topo show dgx-a100 --copies 0,4           the copies on the way from GPU 0 to 4, and over the network
        ringtree topo show matrix.txt --xml topo.xml       as NCCL's topology file
        ringtree topo show azure-nc96 --graph graph.xml    with the rings and trees of an NCCL_GRAPH_FILE
    """
    parser.add_argument(
        "topology", type=MayBeFile, metavar="FILE|NAME", help="a topology file, or a name from `ringtree topo list`"
    )
    cluster.add_arguments(parser, named=False)
    parser.add_argument("--copies", metavar="A,B", help="print the copies between GPUs A and B by every method instead")
    parser.add_argument(
        "--graph", type=FileRead, metavar="FILE", help="draw the rings and trees of NCCL's graph file instead"
    )
    parser.add_argument("--sources", action="store_true", help="also print the sources of the figures")
    _add_files(parser)


def list_(parser: argparse.ArgumentParser) -> None:
    """List the machines and networks of the catalogue."""
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def _add_files(parser: argparse.ArgumentParser) -> None:
    """Adds --json, --xml and --html: files that a machine is written to."""
    parser.add_argument(
        "--json", type=to_write, metavar="FILE", help="write the machine as JSON, which reads back unchanged"
    )
    parser.add_argument(
        "--xml", type=to_write, metavar="FILE", help="write the machine as NCCL's topology file (NCCL_TOPO_FILE)"
    )
    parser.add_argument("--html", type=to_write, metavar="FILE", help="write a page that any browser opens")


COMMANDS = {
    "detect": ("describe this machine", detect),
    "show": ("draw a machine of the catalogue or of a file", show),
    "list": ("list the machines and networks of the catalogue", list_),
}
