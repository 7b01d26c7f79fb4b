"""Print ringtree's version."""

from __future__ import annotations

import argparse
from importlib import metadata


def add_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def version() -> str:
    """The installed version; "unknown" where ringtree runs from a source tree that nobody installed."""
    try:
        return metadata.version("ringtree")
    except metadata.PackageNotFoundError:
        return "unknown"


def run(args: argparse.Namespace) -> int:
    print(f"ringtree {version()}")
    return 0
