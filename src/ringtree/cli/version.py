"""Print ringtree's version."""

from __future__ import annotations

import argparse

import ringtree


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run(args: argparse.Namespace) -> int:
    print(f"ringtree {ringtree.__version__}")
    return 0
