"""Print ringtree's version."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: `ringtree version` has no options."""
