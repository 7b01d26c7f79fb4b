"""The time of a schedule at a place of any kind: the one function to ask for a cost."""

from __future__ import annotations

from ringtree.ir.schedule import Schedule
from ringtree.ir.units import check_byte_count
from ringtree.price import devices, memory, over_hosts
from ringtree.price.devices import Devices
from ringtree.price.hosts import Hosts
from ringtree.price.pricing import Priced
from ringtree.topology import Topology

Where = Topology | memory.SharedMemory | Hosts | Devices


def seconds(schedule: Schedule, where: Where, nbytes: int) -> float:
    """Seconds of the schedule on a whole vector of `nbytes`; its rank r is the topology's rank r.

    Links, and hosts with a network between: every rank's clock advances round by round. Memory: in closed form over the
    work of each rank in each round. For many sizes `Priced`, or a `memory.Workload`, reads the schedule once.

    ValueError: if the schedule cannot run there, or `nbytes` is below 0. TypeError: if `where` is no such place, or
    `nbytes` no number.
    """
    check_byte_count(nbytes)
    if isinstance(where, memory.SharedMemory):
        return memory.seconds(schedule, where, nbytes)
    if isinstance(where, Hosts):
        return over_hosts.seconds(schedule, where, nbytes)
    if isinstance(where, Devices):
        return devices.seconds(schedule, where, nbytes)
    if isinstance(where, Topology):
        return Priced(schedule, where).seconds(nbytes)
    raise TypeError(f"{type(where).__name__} is not a machine model: expected Topology, SharedMemory, Hosts or Devices")
