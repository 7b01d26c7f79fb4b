"""The predicted time of a measured row, by the costs that calls on this machine are planned by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ringtree.algorithms import build
from ringtree.bench.machine import usable_cores
from ringtree.bench.record import BenchRow
from ringtree.ir.collective import collective as find_collective
from ringtree.ir.schedule import Schedule
from ringtree.plan import choose, choose_over_hosts, predict, steps_for
from ringtree.price import Devices, Hosts, seconds
from ringtree.price.memory import CostParameters, SharedMemory, built_in
from ringtree.runtime.engines.shm import nodes_and_speed, single_copies_here, staging
from ringtree.runtime.launch import own_cores
from ringtree.runtime.linux import on_a_mesh
from ringtree.runtime.tuned import parameters_here


def shared_memory(ranks: int, parameters: CostParameters | None = None, pin: Sequence[int] = ()) -> SharedMemory:
    """The memory of this machine for a group of this many ranks, at the given costs, else at those of its tuned file,
    else at the built-in ones, as this kernel's rate of single copies makes them. The ranks are on the NUMA nodes of the
    cores of `pin`, else of those that `ringtree run` binds them to."""
    longest, reads_Bps = single_copies_here(ranks)
    cores = usable_cores()
    parameters = parameters or parameters_here() or built_in(reads_Bps, on_a_mesh(), ranks > cores)
    usable = own_cores.usable()
    pinned = own_cores.of_ranks(ranks, pin) if pin else None
    bound = [[core] for core in pinned] if pinned else own_cores.shares(ranks, usable)
    node_of, speed = nodes_and_speed(bound or [usable] * ranks) if usable else ((), 1.0)
    return SharedMemory(cores, *staging(ranks), parameters, longest, node_of, speed)


class Predicted(BenchRow):
    """A row, and the predicted time of its out-of-place call in microseconds."""

    predicted_us: float


def predicted(
    row: BenchRow,
    where: SharedMemory | Hosts | Devices | None = None,
    schedule: Schedule | None = None,
    symmetric: bool = False,
) -> Predicted:
    """The row with its prediction, by the costs of the ranks' own group where they are given, else by the cost
    parameters of this machine's tuned file, else by those built in. `schedule`: what ran, where it is none of a
    registered algorithm. `symmetric`: of arrays from `comm.empty`."""
    if schedule is not None:
        at = where or shared_memory(row["ranks"])
        return Predicted(**row, predicted_us=seconds(schedule, at, row["nbytes"]) * 1e6)
    root = row["root"] if find_collective(row["collective"]).rooted else None
    if isinstance(where, Devices):
        made = build(row["algorithm"], row["collective"], row["ranks"], root)
        return Predicted(**row, predicted_us=seconds(made, where, row["nbytes"]) * 1e6)
    if isinstance(where, Hosts):
        return Predicted(**row, predicted_us=_over_hosts_s(row, where, root) * 1e6)
    memory = replace(where or shared_memory(row["ranks"]), symmetric=symmetric)
    what = (row["algorithm"], row["collective"], row["ranks"], root, row["nbytes"])
    found = choose(row["collective"], row["ranks"], row["nbytes"], memory=memory) if memory.node_of else None
    options = found.options if found and found.algorithm == row["algorithm"] else ()
    return Predicted(**row, predicted_us=predict(*what, steps_for(*what, memory, options), memory).seconds * 1e6)


def _over_hosts_s(row: BenchRow, hosts: Hosts, root: int | None) -> float:
    """Seconds of the call's own choice where the algorithm is that, else of the algorithm cut as on one host."""
    found = choose_over_hosts(row["collective"], hosts, root, row["nbytes"])
    what = row["algorithm"], row["collective"], row["ranks"], root
    steps = found.steps if found.algorithm == row["algorithm"] else steps_for(*what, row["nbytes"], hosts.memory)
    return seconds(steps.apply(*what), hosts, row["nbytes"])
