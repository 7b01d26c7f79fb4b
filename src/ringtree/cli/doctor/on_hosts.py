"""The command as one rank on each of several hosts, for whatever starts ranks there."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

MODULE = "ringtree.cli"
Starter = Callable[[Sequence[str], Sequence[str]], int]
"""Starts a Python module with its arguments as one rank on each of those hosts; returns rank 0's exit code."""


def on_hosts(hosts: Sequence[str], args: argparse.Namespace, start: Starter) -> int:
    """Starts the same command on those hosts, and returns its exit code."""
    return start(hosts, [MODULE, *words(args)])


def words(args: argparse.Namespace) -> list[str]:
    """The command line of those options."""
    page = ["--html", str(args.html.absolute())] if args.html else []
    return ["doctor", "--seconds", f"{args.seconds:g}", *(["--json"] if args.json else []), *page]
