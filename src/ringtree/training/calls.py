"""What the ranks called in a step, as the flight recorder wrote it down: collectives and messages, in their order."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import torch.distributed as dist

from ringtree.draw.step_picture import Call
from ringtree.torch_backend.flight_recorder import RING, Entry
from ringtree.training.phases import phase_at
from ringtree.training.traffic import FEWEST

TORCHS = {"allgather": "all_gather", "allreduce": "all_reduce", "_allgather_base": "all_gather"}
"""torch's names that do not begin with the field's."""


def called(step: Callable[[], object]) -> list[list[Call]]:
    """Takes a step; what each rank called in it, on every rank. All ranks come. Where a process remembers fewer
    operations than a step has (TORCH_FR_BUFFER_SIZE), the oldest are missing."""
    before = RING[-1] if RING else None
    step()
    mine: list[Call] = []
    for entry in reversed(RING):
        if entry is before:
            break
        if entry.peer is None or entry.name == "send":
            mine.append(_call(entry))
    everybodys: list[list[Call]] = [[] for _ in range(dist.get_world_size())]
    dist.all_gather_object(everybodys, mine[::-1])
    return everybodys


def _call(entry: Entry) -> Call:
    group = entry.recorder
    nbytes = max(sum(prod(shape) * kind.itemsize for shape, kind in side) for side in (entry.inputs, entry.outputs))
    ranks = tuple(group.ranks) if entry.peer is None else (group.rank, group.ranks[entry.peer])
    key = (group.name, ranks, entry.number) if entry.peer is None else (group.name, ranks, entry.tag, entry.turn)
    return Call(key, _name(entry.name), ranks, nbytes, phase_at(entry.begun_ns))


def _name(torchs: str) -> str:
    ours = next((name for name in FEWEST if torchs.startswith(name)), None)
    return ours or next((name for given, name in TORCHS.items() if torchs.startswith(given)), torchs)
