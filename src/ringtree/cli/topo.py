"""Machines: this one, those of the catalogue, and those in files.

    ringtree topo list                         the machines and networks that are known by name
    ringtree topo show dgx-h100                its devices and links, how each GPU reaches each other and the NICs
    ringtree topo show topo.xml --html topo.html
    ringtree topo detect                       this machine, from what Linux tells without rights

A file is NCCL's topology XML, hwloc's XML, what `nvidia-smi topo -m` prints, or JSON that --json wrote.
"""

from __future__ import annotations

import argparse
from importlib import import_module

COMMANDS = {
    "detect": "describe this machine",
    "show": "draw a machine, of the catalogue or of a file",
    "list": "list the machines and the networks that are known by name",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="topo", metavar="COMMAND", required=True)
    for name, line in COMMANDS.items():
        module = import_module(f"ringtree.cli.topo_{name}")
        one = commands.add_parser(
            name,
            help=line,
            description=module.__doc__,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(one)
        one.set_defaults(topo_run=module.run)


def run(args: argparse.Namespace) -> int:
    code: int = args.topo_run(args)
    return code
