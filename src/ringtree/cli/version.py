"""The version: `ringtree version`."""

from __future__ import annotations

import argparse

import ringtree


def run(args: argparse.Namespace) -> int:
    """Prints the version. Returns the exit code."""
    print(f"ringtree {ringtree.__version__}")
    return 0
