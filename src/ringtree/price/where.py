"""The one question of this room: how long does a schedule take there? Asked of links, or of a machine's memory."""

from __future__ import annotations

from ringtree.ir.schedule import Schedule
from ringtree.price import memory, pricing
from ringtree.price.memory import SharedMemory
from ringtree.topology import Topology

Where = Topology | SharedMemory


def seconds(schedule: Schedule, where: Where, nbytes: int) -> float:
    """How long the schedule takes on a whole vector of `nbytes`; its rank r is the topology's rank r.

    Links: every rank's clock moves on round by round. Memory: in closed form over what the schedule asks of each rank
    in each round. ValueError for a schedule that cannot run there. For many sizes `Priced(schedule, topology)`, or a
    `memory.Workload`, reads the schedule once."""
    if nbytes < 0:
        raise ValueError(f"{nbytes} bytes; expected at least 0")
    if isinstance(where, SharedMemory):
        return memory.seconds(schedule, where, nbytes)
    if isinstance(where, Topology):
        return pricing.Priced(schedule, where).seconds(nbytes)
    raise TypeError(f"{type(where).__name__} is no place to price a schedule: expected Topology or SharedMemory")
