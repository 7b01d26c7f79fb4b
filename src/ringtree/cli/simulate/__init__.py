"""`ringtree simulate`: a schedule played on described links, or its thread blocks on a device of fitted constants."""

from __future__ import annotations

import argparse
from importlib import import_module


def run(args: argparse.Namespace) -> int:
    """Does what the options ask for. Returns the exit code."""
    if args.fit:
        return int(import_module("ringtree.cli.simulate.fitting").run(args))
    if args.out:
        raise ValueError("--out is the file of fitted constants: expected --fit TABLE as well")
    if args.constants:
        return int(import_module("ringtree.cli.simulate.on_device").run(args))
    if args.channels is not None:
        raise ValueError("--channels applies to thread blocks on a device: expected --constants or --fit as well")
    if args.measured:
        raise ValueError("--measured compares a table with a device of fitted constants: expected --constants as well")
    if args.bytes is None:
        raise ValueError("expected --bytes, the size of the whole vector, such as 64K or 16M")
    return int(import_module("ringtree.cli.simulate.on_links").run(args))
