"""The ranks' calls in a step, by the flight recorder: collectives and messages, in their order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from math import prod

import torch.distributed as dist

from ringtree.draw.step_picture import DrawnCall
from ringtree.torch_backend.flight.recorder import RING, FlightEntry
from ringtree.training.core.step import phase_at
from ringtree.training.strategies.strategy import FEWEST

TORCHS = {"allgather": "all_gather", "allreduce": "all_reduce", "_allgather_base": "all_gather"}
"""torch's names that do not begin with the field's."""


def called(step: Callable[[], object]) -> list[list[DrawnCall]]:
    """Takes a step; returns each rank's calls in it, on every rank. All ranks call it."""
    before = newest()
    step()
    mine = since(before)
    everybodys: list[list[DrawnCall]] = [[] for _ in range(dist.get_world_size())]
    dist.all_gather_object(everybodys, mine)
    return everybodys


def newest() -> FlightEntry | None:
    """This rank's last call; None before the first one."""
    return RING[-1] if RING else None


def since(before: FlightEntry | None) -> list[DrawnCall]:
    """This rank's calls after `before`. Where a process remembers fewer operations (TORCH_FR_BUFFER_SIZE), the oldest
    are missing."""
    entries = list(takewhile(lambda entry: entry is not before, reversed(RING)))[::-1]
    made = (_call(entry) for entry in sorted(entries, key=_moment_ns))
    return [call for call in made if call.ranks[0] != call.ranks[-1] or len(call.ranks) == 1]  # none to oneself


def _moment_ns(entry: FlightEntry) -> int:
    """The moment of a message: a send's begin, a receive's end."""
    receives = entry.peer is not None and entry.name != "send"
    return entry.ended_ns if receives and entry.ended_ns else entry.begun_ns


def _call(entry: FlightEntry) -> DrawnCall:
    group, phase = entry.recorder, phase_at(entry.begun_ns)
    nbytes = max(sum(prod(shape) * kind.itemsize for shape, kind in side) for side in (entry.inputs, entry.outputs))
    if entry.peer is None:
        ranks = tuple(group.ranks)
        return DrawnCall((group.name, ranks, entry.number), _name(entry.name), ranks, nbytes, phase)
    peer = group.ranks[entry.peer]
    ranks = (group.rank, peer) if entry.name == "send" else (peer, group.rank)
    return DrawnCall((group.name, ranks, entry.tag, entry.turn), "send", ranks, nbytes, phase)


def _name(torchs: str) -> str:
    ours = next((name for name in FEWEST if torchs.startswith(name)), None)
    return ours or next((name for given, name in TORCHS.items() if torchs.startswith(given)), torchs)
