"""Choice of algorithm for ranks on several hosts: the one with the least predicted time, memory and network joined.

Beside the algorithms that know no hosts, the candidates are those that are nested: one algorithm inside each host, one
between hosts (transform.nest; transform.nest_in_hosts where hosts have unequal numbers of ranks, or ranks are not in
the order of their hosts).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from ringtree.algorithms import build, find
from ringtree.algorithms.groups import written
from ringtree.ir.schedule import Schedule
from ringtree.ir.units import duration
from ringtree.plan.choose import NOTEWORTHY, shortlist
from ringtree.plan.properties import at_once
from ringtree.plan.steps import CallTuning, fitting
from ringtree.price import Hosts, seconds

NESTED = "hierarchical"
INNER = ("two_shot", "one_shot", "ring", "flat", "chain", "binomial")
OUTER = ("two_shot", "one_shot", "ring", "halving_doubling", "recursive_doubling", "binomial", "chain", "double_tree")
"""The algorithms that are nested, inside and between, where they serve what the nesting asks."""
PIECES_NBYTES = 1 << 17
"""Algorithms that pass a vector on piece by piece cut it so."""
MOST_PIECES = 64
WORTH_CHANNELS = 0.9
"""Windows are put side by side where that takes less than this share of the time."""


@dataclass(frozen=True, slots=True)
class HostChoice:
    """An algorithm and its tuning, with the reason for both as text."""

    algorithm: str
    steps: CallTuning
    why: str


def choose_over_hosts(
    collective: str, hosts: Hosts, root: int | None, nbytes: int, rank_order: bool = False
) -> HostChoice:
    """Returns the algorithm for a call on a whole vector of `nbytes`; every rank must pass the same values.

    `rank_order`: only algorithms that agree with one another to the last bit. Cost: up to a second for the first size
    between two powers of two over 64 ranks, then a cache look-up."""
    nbytes = 1 << (nbytes - 1).bit_length() if nbytes else 0
    return _choose(collective, hosts, root, nbytes, rank_order)


@lru_cache(maxsize=1024)
def _choose(collective: str, hosts: Hosts, root: int | None, nbytes: int, rank_order: bool) -> HostChoice:
    ranks = len(hosts.host_of)
    timed = [
        (seconds(schedule, hosts, nbytes), name, steps)
        for name, steps, schedule in _candidates(collective, hosts, root, nbytes, rank_order)
    ]
    if not timed:
        raise ValueError(f"no algorithm for {collective} reduces all ranks in order at once")
    least_s = min(time_s for time_s, _, _ in timed) or 1.0
    timed.sort(key=lambda t: round(t[0] / least_s / NOTEWORTHY))  # among equals the first
    for (time_s, name, steps), (next_s, next_name, next_steps) in pairwise([*timed, (0.0, "", CallTuning())]):
        time_s, steps = _side_by_side(time_s, name, steps, collective, hosts, root, nbytes)
        fitted = fitting(steps, name, collective, ranks, root, hosts.memory.slots)
        if fitted.options != steps.options and name == NESTED:
            continue  # without its options it would be another nesting
        beside = f", {duration(next_s)} for {_named(next_name, next_steps)}" if next_name else ""
        return HostChoice(name, fitted, f"{duration(time_s)} predicted{beside}, over {hosts.source}")
    raise AssertionError("an algorithm without options always fits")


def _candidates(
    collective: str, hosts: Hosts, root: int | None, nbytes: int, rank_order: bool
) -> list[tuple[str, CallTuning, Schedule]]:
    ranks, each = len(hosts.host_of), hosts.each()
    where = ("group", each or written(hosts.host_of))
    found = []
    for name in at_once(collective) if rank_order else shortlist(collective, ranks):
        if name == NESTED:
            continue  # its own groups are none of hosts
        steps = CallTuning(_pieces(name, collective, nbytes))
        found.append((name, steps, _built(name, collective, ranks, root, steps)))
    if rank_order or each == 1 or collective not in find(NESTED).serves:
        return found
    for inner in INNER:
        for outer in OUTER:
            steps = CallTuning((where, ("inner", inner), ("outer", outer)))
            try:
                found.append((NESTED, steps, _built(NESTED, collective, ranks, root, steps)))
            except ValueError:  # one of them does not serve what the nesting asks
                continue
    return found


def _side_by_side(
    time_s: float, name: str, steps: CallTuning, collective: str, hosts: Hosts, root: int | None, nbytes: int
) -> tuple[float, CallTuning]:
    """The time and the steps with several windows under way at once, where one after the other waits for the latency
    much longer."""
    ranks = len(hosts.host_of)
    if root is not None or hosts.windows(_built(name, collective, ranks, root, steps), nbytes) == 1:
        return time_s, steps
    wider = replace(steps, channels=hosts.memory.slots // 2)
    wider_s = seconds(wider.apply(name, collective, ranks, root), hosts, nbytes)
    return (wider_s, wider) if wider_s < WORTH_CHANNELS * time_s else (time_s, steps)


@lru_cache(maxsize=256)
def _built(name: str, collective: str, ranks: int, root: int | None, steps: CallTuning) -> Schedule:
    return build(name, collective, ranks, root, **dict(steps.options))


def _pieces(name: str, collective: str, nbytes: int) -> tuple[tuple[str, int | str], ...]:
    function = find(name).functions.get(collective)
    if "pieces" not in (getattr(function, "__kwdefaults__", None) or {}):
        return ()
    return (("pieces", min(max(nbytes // PIECES_NBYTES, 1), MOST_PIECES)),)


def _named(name: str, steps: CallTuning) -> str:
    given = dict(steps.options)
    return f"{given['inner']} in hosts and {given['outer']} between" if name == NESTED else name
