"""`ringtree simulate`: a schedule played on described links, or the operations of another simulator's file."""

from __future__ import annotations

import argparse
from importlib import import_module

from ringtree.algorithms import REGISTRY
from ringtree.cli.arguments import subject
from ringtree.formats.operations import format_of

OF_TRACES = ("groups", "expand")


def run(args: argparse.Namespace) -> int:
    """Does what the options ask for. Returns the exit code."""
    if args.what not in REGISTRY and format_of(args.what):
        return int(import_module("ringtree.cli.simulate.operations").run(args))
    for option in OF_TRACES:
        if subject.is_given(getattr(args, option)):
            raise ValueError(f"--{option} applies to Chakra execution traces; leave it out")
    if args.bytes is None:
        raise ValueError("required: --bytes, the size of the whole vector, such as 64K or 16M")
    return int(import_module("ringtree.cli.simulate.on_links").run(args))
