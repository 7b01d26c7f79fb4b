"""The predicted time of a measured row, by the costs that calls on this machine are planned by."""

from __future__ import annotations

from ringtree.bench.machine import usable_cores
from ringtree.bench.record import BenchRow
from ringtree.ir.collective import collective as find_collective
from ringtree.plan import predict, steps_for
from ringtree.price.memory import BUILT_IN, SharedMemory
from ringtree.runtime.engines.shm import staging
from ringtree.runtime.tuned import parameters_here


def shared_memory(ranks: int) -> SharedMemory:
    """The memory of this machine for a group of this many ranks, at the costs of its tuned file, else the built-in
    ones."""
    return SharedMemory(usable_cores(), *staging(ranks), parameters_here() or BUILT_IN)


class Predicted(BenchRow):
    """A row, and the predicted time of its out-of-place call in microseconds."""

    predicted_us: float


def predicted(row: BenchRow) -> Predicted:
    """The row with its prediction, by the cost parameters of this machine's tuned file, else by those built in."""
    memory = shared_memory(row["ranks"])
    root = row["root"] if find_collective(row["collective"]).rooted else None
    what = (row["algorithm"], row["collective"], row["ranks"], root, row["nbytes"])
    return Predicted(**row, predicted_us=predict(*what, steps_for(*what, memory), memory).seconds * 1e6)
