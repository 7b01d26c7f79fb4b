"""List the groups of ranks that run on this machine, this user's own: who is where, and who waits for whom.

    ringtree ps
    ringtree ps --json groups.json

For each rank its process, the call that it has waited in for more than 50 ms, since when and for whom; else the last
collective that it has begun. Groups made from others are shown by the waits in them. Nothing is disturbed: the state is
read from the groups' memory, no port is opened, and other users' processes are not looked at.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree ps`."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the groups as JSON")
