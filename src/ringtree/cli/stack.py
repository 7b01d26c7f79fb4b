"""`ringtree stack`: the Python stacks of a group's ranks, with what each waits for."""

from __future__ import annotations

import argparse
import time

from ringtree.cli import ps
from ringtree.runtime.linux import require_linux
from ringtree.runtime.observing.stacks import NoStack, python_stacks
from ringtree.runtime.observing.worlds import ObservedWorld, worlds


def run(args: argparse.Namespace) -> int:
    """Prints the stacks. Returns 1 where one of them could not be had."""
    require_linux()
    world = find(args.job)
    ranks = [rank for rank in world.ranks if args.rank is None or rank.rank in args.rank]
    if not world.readable:
        raise ValueError(f"{args.job} is a group of another version of ringtree, whose ranks are not known here")
    if unknown := sorted(set(args.rank or ()) - {rank.rank for rank in ranks}):
        raise ValueError(f"--rank {unknown[0]}: expected one of the {len(world.ranks)} ranks of {world.job}")
    lacking = 0
    for rank in ranks:
        print(f"rank {rank.rank}, process {rank.pid if rank.pid is not None else '-'}: ", end="")
        print("; ".join(ps.states(rank, time.monotonic_ns())), flush=True)
        if rank.pid is None:
            continue
        try:
            text = python_stacks(rank.pid, args.native)
        except NoStack as error:
            text, lacking = str(error), lacking + 1
        for line in text.rstrip().splitlines():
            print(f"  {line}")
        print()
    return 1 if lacking else 0


def find(job: str) -> ObservedWorld:
    """The group of that name, or of that process. ValueError where there is none."""
    for world in worlds():
        if job == world.job or job in map(str, (*(rank.pid for rank in world.ranks), *world.holders)):
            return world
    raise ValueError(f"{job!r}: no group of this user's on this machine; `ringtree ps` lists them")
