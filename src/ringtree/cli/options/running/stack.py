"""Show the Python stacks of every rank of a group on this machine, also of one that hangs outside of all calls.

    ringtree stack w1042
    ringtree stack 104711 --rank 2
    ringtree stack 104711 --native

The group is named as `ringtree ps` lists it, or by the process of any of its ranks. Stacks come from py-spy where it is
installed and the kernel lets it look; else from ranks that were started with RINGTREE_STACK_SIGNAL=SIGUSR1, which
answer that signal. Only this user's own processes are looked at.
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree stack`."""
    parser.add_argument("job", metavar="JOB|PID", help="a group of `ringtree ps`, or the number of a rank's process")
    parser.add_argument("--rank", type=int, action="append", metavar="R", help="of this rank only (may be repeated)")
    parser.add_argument("--native", action="store_true", help="with C and C++ frames, by py-spy")
