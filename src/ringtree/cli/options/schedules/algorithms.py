"""List the algorithms: their collectives, rounds and bytes for n ranks and S bytes, and publications."""

from __future__ import annotations

import argparse

from ringtree.cli.options.collective import collective_name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree algorithms`."""
    parser.add_argument("--collective", type=collective_name, metavar="C", help="only those that serve this collective")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--markdown", action="store_true", help="as the README's table")
    shape.add_argument("--page", action="store_true", help="as docs/algorithms.md, with a picture of each")
