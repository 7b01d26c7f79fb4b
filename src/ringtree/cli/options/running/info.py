"""Print this machine's cores, memory and software versions."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree info`."""
    parser.add_argument("--json", action="store_true", help="the same as JSON")
