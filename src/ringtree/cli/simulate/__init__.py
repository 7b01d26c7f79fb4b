"""`ringtree simulate`: a schedule played on described links, its thread blocks on a device of fitted constants, or the
operations of another simulator's file."""

from __future__ import annotations

import argparse
from importlib import import_module

from ringtree.algorithms import REGISTRY
from ringtree.cli.arguments import subject
from ringtree.cli.options.cluster import OPTIONS
from ringtree.formats.operations import format_of

OF_TRACES = ("groups", "expand")
OF_DEVICES = {
    "out": "--out is the file of fitted constants: expected --fit TABLE as well",
    "channels": "--channels applies to thread blocks on a device: expected --constants or --fit as well",
    "measured": "--measured compares a table with a device of fitted constants: expected --constants as well",
}
"""Options that stand beside others, by what is missing where they stand alone."""


def run(args: argparse.Namespace) -> int:
    """Does what the options ask for. Returns the exit code."""
    if args.what not in REGISTRY and format_of(args.what):
        for option in ("fit", "constants", *OF_DEVICES):
            if subject.is_given(getattr(args, option)):
                raise ValueError(f"--{option} applies to thread blocks, not to operations; leave it out")
        return int(import_module("ringtree.cli.simulate.operations").run(args))
    for option in OF_TRACES:
        if subject.is_given(getattr(args, option)):
            raise ValueError(f"--{option} applies to Chakra execution traces; leave it out")
    if (args.fit or args.constants) and (options := subject.given(args, OPTIONS)):
        raise ValueError(f"{options[0]} applies to links, not to thread blocks on a device; leave it out")
    if args.fit:
        return int(import_module("ringtree.cli.simulate.fitting").run(args))
    if args.out:
        raise ValueError(OF_DEVICES["out"])
    if args.constants:
        return int(import_module("ringtree.cli.simulate.on_device").run(args))
    for option in ("channels", "measured"):
        if subject.is_given(getattr(args, option)):
            raise ValueError(OF_DEVICES[option])
    return int(import_module("ringtree.cli.simulate.on_links").run(args))
