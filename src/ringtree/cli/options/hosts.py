"""Options of commands that start themselves as ranks of several hosts."""

from __future__ import annotations

import argparse

from ringtree.cli.options.files import MayBeFile

ON_HOSTS = "ringtree.cli.on_hosts"
"""The module that starts the command on other hosts, loaded where --hosts is given."""


def add_arguments(parser: argparse._ActionsContainer, text: str) -> None:
    """`text`: what the command does with the hosts, for help."""
    add = parser.add_argument
    add("--hosts", type=MayBeFile, metavar="LIST|FILE", help=f"{text}, over ssh")
    add("--ssh", metavar="COMMAND", help="how to reach them, as in ringtree run (default ssh)")
    add("--python", metavar="PATH", help="the Python there (default: the path of this one)")
    parser.set_defaults(command_line=[])


def are_given(args: argparse.Namespace) -> bool:
    """Whether there are hosts. ValueError where only the way to them is given."""
    if args.hosts is None and (args.ssh is not None or args.python is not None):
        raise ValueError("--ssh and --python are for ranks on several hosts; expected --hosts beside them")
    return args.hosts is not None
