"""Starting a program as ranks: `ringtree run`."""

from __future__ import annotations

import argparse
from importlib import import_module

from ringtree.cli.arguments.destination import check_destination
from ringtree.runtime.launch import launch

PROVES = "ringtree.cli.arguments.as_called"
"""The module that proves an algorithm, loaded where one is named: without it, a program starts in half the time."""


def run(args: argparse.Namespace) -> int:
    """Starts the ranks and waits for them. Returns the exit code of the rank that failed first, else 0."""
    program = args.program[1:] if args.program[:1] == ["--"] else args.program
    if args.trace:
        check_destination(args.trace, *program[:1])
    algorithm = None
    if args.algorithm and args.ranks > 0:
        algorithm = import_module(PROVES).proved(args.algorithm, args.ranks)
    return launch.run(program, args.ranks, module=args.module, trace=args.trace, algorithm=algorithm)
