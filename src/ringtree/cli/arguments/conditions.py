"""Faults of a topology as a command line names them: stragglers, and links that are slowed or failed."""

from __future__ import annotations

import argparse

from ringtree.simulate import Conditions
from ringtree.topology import Topology
from ringtree.topology.text import seconds


def conditions(args: argparse.Namespace, topology: Topology) -> Conditions:
    """ValueError, one line, at the first that cannot be."""
    late: dict[str, dict[int, float]] = {"delay": {}, "slowdown": {}}
    for text in args.straggler:
        rank, what, value = _straggler(text)
        if rank in late[what]:
            raise ValueError(f"--straggler {text!r}: rank {rank} has a {what} already; expected one a rank")
        late[what][rank] = value
    links: dict[tuple[int, int], float] = {}
    for text in args.link:
        ends, factor = _link(text, topology)
        if ends in links:
            raise ValueError(f"--link {text!r}: this link has a factor already; expected one a link")
        links[ends] = factor
    if args.seed is not None and args.jitter is None:
        raise ValueError("--seed applies to --jitter: expected such as --jitter 0.1 as well")
    if (args.seed or 0) < 0:
        raise ValueError(f"--seed {args.seed}: expected at least 0")
    found = Conditions(late["delay"], late["slowdown"], links, args.jitter or 0.0, args.seed or 0)
    found.check(topology)
    return found


def _straggler(text: str) -> tuple[int, str, float]:
    """`rank=3,delay=1ms` or `rank=3,slowdown=2`."""
    parts = text.split(",")
    given = dict(part.partition("=")[::2] for part in parts)
    what = next((key for key in ("delay", "slowdown") if set(given) == {"rank", key}), None)
    expected = f"--straggler {text!r}: expected such as rank=3,delay=1ms or rank=3,slowdown=2"
    if what is None or len(parts) > 2 or not given["rank"].isdecimal():
        raise ValueError(expected)
    try:
        return int(given["rank"]), what, seconds(given[what]) if what == "delay" else float(given[what])
    except ValueError:
        raise ValueError(expected) from None


def _link(text: str, topology: Topology) -> tuple[tuple[int, int], float]:
    """`0-1,factor=0.5` or `rank0-switch,failed`: nodes by name, ranks by number too."""
    ends, _, state = text.rpartition(",")
    try:
        factor = 0.0 if state == "failed" else float(state.removeprefix("factor="))
    except ValueError:
        factor = -1.0
    if not ends or factor < 0:
        raise ValueError(f"--link {text!r}: expected such as 0-1,factor=0.5 or rank0-switch,failed")
    known = {name: node for node, name in enumerate(topology.nodes)}
    known.update({str(rank): rank for rank in range(topology.ranks) if str(rank) not in known})
    for dash in (k for k, letter in enumerate(ends) if letter == "-"):
        if ends[:dash] in known and ends[dash + 1 :] in known:
            source, target = known[ends[:dash]], known[ends[dash + 1 :]]
            topology.link(source, target)
            return (source, target), factor
    raise ValueError(
        f"--link {text!r}: expected two nodes of {topology.name}, such as {topology.link_name(0).replace(' -> ', '-')}"
    )
