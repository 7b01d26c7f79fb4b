"""Ranks whose arrays are in the memory of GPUs of one machine, as a place that schedules are priced in."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ringtree.ir.collective import collective as find_collective
from ringtree.ir.schedule import Schedule, Transfers


@dataclass(frozen=True, slots=True)
class Devices:
    """Ranks on devices. `device_of`: the number of each rank's device. `latency_s`: from a signal of one rank's kernel
    until another's has seen it; `launch_s`: of a call's kernel. `memory_Bps`: a device's memory, bytes read and written
    together. `link_Bps`: from a device to its peers, each way. `source`: where the costs are from, in words."""

    device_of: tuple[int, ...]
    latency_s: float
    launch_s: float
    memory_Bps: float
    link_Bps: float
    source: str = field(default="", compare=False)


def seconds(schedule: Schedule, where: Devices, nbytes: int) -> float:
    """Seconds of the schedule on a whole vector of `nbytes`, whose messages are read where they lie: a latency for each
    round of the rank with the most, and the bytes of the busiest memory or link, whichever takes longer.

    ValueError: if the schedule is for another number of ranks."""
    ranks = len(where.device_of)
    if schedule.ranks != ranks:
        raise ValueError(f"{schedule.name} is for {schedule.ranks} ranks; there are {ranks}")
    rows = schedule.expand()
    sizes = find_collective(schedule.collective).chunk_sizes(ranks, schedule.chunks, nbytes)
    chunk_bytes = float(np.mean(sizes)) if len(sizes) else 0.0
    device = np.asarray(where.device_of)
    remote = rows.source != rows.target
    rounds = max(
        (len(np.unique(rows.round[remote & ((rows.source == r) | (rows.target == r))])) for r in range(ranks)),
        default=0,
    )
    read, written = rows.count * chunk_bytes, _written(rows) * chunk_bytes
    memory, into, out_of = (dict.fromkeys(where.device_of, 0.0) for _ in range(3))
    for target in range(ranks):
        mine = rows.target == target
        memory[int(device[target])] += float(written[mine].sum())
    for number in set(where.device_of):
        crossing_in = (device[rows.target] == number) & (device[rows.source] != number)
        crossing_out = (device[rows.source] == number) & (device[rows.target] != number)
        memory[number] += float(read[device[rows.source] == number].sum())
        into[number], out_of[number] = float(read[crossing_in].sum()), float(read[crossing_out].sum())
    busiest_s = max(memory.values(), default=0.0) / where.memory_Bps
    link_s = max([*into.values(), *out_of.values()], default=0.0) / where.link_Bps
    return where.launch_s + rounds * where.latency_s + max(busiest_s, link_s)


def _written(rows: Transfers) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Chunks that each row adds to what its target reads and writes: one write for all rows of a round into one range,
    and one read more where they are added to it."""
    r = rows
    columns = np.stack([r.round, r.target, r.target_buffer, r.target_chunk])
    _, first, inverse = np.unique(columns, axis=1, return_index=True, return_inverse=True)
    stores = np.zeros(len(first), bool)
    np.logical_or.at(stores, inverse.ravel(), ~r.reduce.astype(bool))
    added = np.zeros(columns.shape[1])
    added[first] = np.where(stores, 1.0, 2.0) * r.count[first]
    return added
