"""Machines: this one, and those of the catalogue.

ringtree topo list                         the machines and networks that are known by name
ringtree topo detect                       this machine, from what Linux tells without rights
"""

from __future__ import annotations

import argparse
from importlib import import_module

COMMANDS = {
    "detect": "describe this machine",
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
