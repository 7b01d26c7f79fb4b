"""`ringtree ps`: the groups of this user's on this machine, as text and as JSON."""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Iterator
from importlib import import_module

from ringtree.cli.arguments.destination import check_destinations
from ringtree.files.json_values import printable
from ringtree.files.replacing import replace_with_json
from ringtree.ir.units import duration
from ringtree.runtime.linux import require_linux
from ringtree.runtime.observing.worlds import LongWait, ObservedRank, ObservedWorld, worlds

OVER_HOSTS = "ringtree.cli.ps_hosts"
"""The module that asks other hosts, loaded where --hosts is given."""


def run(args: argparse.Namespace) -> int:
    """Prints the groups. Returns the exit code."""
    require_linux()
    check_destinations(args, args.json)
    if args.hosts is not None:
        code: int = import_module(OVER_HOSTS).run(args)
        return code
    if alone := next((name for name in ("ssh", "python") if getattr(args, name) is not None), None):
        raise ValueError(f"--{alone} is for groups on several hosts; expected --hosts beside it")
    found, now_ns = worlds(), time.monotonic_ns()
    for number, world in enumerate(found):
        if number:
            print()
        for line in lines(world, now_ns):
            print(line)
    if not found:
        print("no group of this user's runs on this machine")
    if args.json:
        replace_with_json(args.json, {"now_ns": now_ns, "groups": [dataclasses.asdict(world) for world in found]})
    return 0


def lines(world: ObservedWorld, now_ns: int, *, absent: bool = True) -> Iterator[str]:
    """A world and its ranks; without the `absent` ones, where these are looked for on their own hosts. Its program
    chooses some of the texts, so nothing in them moves a terminal's cursor."""
    return map(printable, _lines(world, now_ns, absent))


def _lines(world: ObservedWorld, now_ns: int, absent: bool) -> Iterator[str]:
    command = world.command if len(world.command) <= 80 else world.command[:77] + "..."
    if not world.readable:
        yield f"{world.job}: made by another version of ringtree, {command}"
        yield f"  processes {', '.join(map(str, world.holders))}"
        return
    yield f"{world.job}: {len(world.ranks)} rank{'s' * (len(world.ranks) != 1)}, {command}"
    yield f"  {'rank':>6} {'pid':>8}  state"
    for rank in world.ranks:
        if rank.state == "absent" and not absent:
            continue
        state, *further = states(rank, now_ns)
        yield f"  {rank.rank:>6} {rank.pid if rank.pid is not None else '-':>8}  {state}"
        for line in further:
            yield f"  {'':>6} {'':>8}  {line}"
    if world.failure:
        yield f"  failed: {' '.join(world.failure.split())}"
    for straggler in world.stragglers():
        if world.ranks[straggler].state == "absent" and not absent:
            continue  # it may wait itself
        waiting = [r.rank for r in world.ranks if any(wait.peer == straggler for wait in r.waits)]
        yield f"  rank {straggler} holds up rank{'s' * (len(waiting) > 1)} {', '.join(map(str, waiting))}"


def states(rank: ObservedRank, now_ns: int) -> Iterator[str]:
    """Lines on what a rank does: one for each long wait, or its last call."""
    if rank.state == "stopped":
        yield "its process is stopped: kill -CONT lets it go on"
    elif rank.state != "running":
        yield {"absent": "not here: not attached yet, or on another host", "lost": "out of reach"}.get(
            rank.state, rank.state
        )
        return
    for wait in rank.waits:
        yield _wait(wait, now_ns)
    if not rank.waits and rank.calls:
        yield f"in no long wait; the last collective is call {rank.calls}{f', {rank.last}' if rank.last else ''}"
    elif not rank.waits:
        yield "in no long wait; no collective yet"


def _wait(wait: LongWait, now_ns: int) -> str:
    whom = "any peer" if wait.peer is None else f"rank {wait.peer}"
    group = f" of the group of ranks {wait.group}" if wait.group else ""
    left_s = (wait.deadline_ns - now_ns) / 1e9
    limit = f", up to {duration(left_s)} more" if 0 < left_s < 1e8 else ""
    return f"waits for {whom} since {duration((now_ns - wait.since_ns) / 1e9)}{limit}, in {wait.where}{group}"
