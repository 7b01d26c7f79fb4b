"""Algorithms as calls use them: cut for a size, executed in windows of elements, and proved for a number of ranks."""

from __future__ import annotations

from collections.abc import Sequence

from ringtree.algorithms import find
from ringtree.algorithms.own import absolute, is_reference
from ringtree.bench.predicted import shared_memory
from ringtree.cli.arguments.subject import Options, roots
from ringtree.ir.lower import lower
from ringtree.ir.program import Program
from ringtree.ir.schedule import Schedule
from ringtree.plan import prove_own, steps_for
from ringtree.plan.tuning import CallTuning
from ringtree.price import SharedMemory
from ringtree.runtime.communicator.calls.binding import part_of, window
from ringtree.runtime.engines.shm import staging
from ringtree.runtime.types import Dtype
from ringtree.simulate.windows import as_run

CHOSEN = ("pieces", "aggregate")
"""The options of algorithms that `plan.steps` chooses by size."""


def cut(
    schedule: Schedule, algorithm: str, nbytes: int, memory: SharedMemory | None = None, options: Options = ()
) -> tuple[Schedule, CallTuning]:
    """Returns the schedule as a call on `nbytes` would cut it on this machine, or in that memory, and the tuning.
    `options`: the algorithm's, with which the schedule was made. ValueError for one that the cut itself chooses."""
    what = algorithm, schedule.collective, schedule.ranks, schedule.root
    for name, value in options:
        if name in CHOSEN:
            raise ValueError(f"--option {name}: the cut for a size chooses {name} itself; leave it out")
        if not isinstance(value, int | str):
            raise ValueError(f"--option {name}={value}: the cut for a size expects a whole number or a word")
    given = tuple((name, value) for name, value in dict(options).items() if isinstance(value, int | str))
    steps = steps_for(*what, nbytes, memory or shared_memory(schedule.ranks), given)
    return steps.apply(*what), steps


def cut_in_words(schedule: Schedule, algorithm: str, nbytes: int, options: Options = ()) -> tuple[Schedule, str]:
    """Returns the schedule as `cut` does, and the tuning as a line of text."""
    slots, slot_bytes = staging(schedule.ranks)
    made, steps = cut(schedule, algorithm, nbytes, options=options)
    widest = max((int(b.rows.count.max(initial=1)) for b in made.blocks), default=1)
    chunk, most = nbytes // made.chunks, slot_bytes // widest
    passing = f"sent {most} at a time" if most < chunk else "sent whole"
    return (
        made,
        f"{nbytes} bytes staged through {slots} slots of {slot_bytes}: {steps}; chunks of {chunk} bytes, {passing}",
    )


def programs(schedule: Schedule, nbytes: int, in_place: bool, memory: SharedMemory | None = None) -> Sequence[Program]:
    """The programs as the engine runs them on elements of 4 bytes, on this machine or in that memory."""
    part, item = part_of(schedule, 0), Dtype.FLOAT32
    chunk = -(-nbytes // item.itemsize // schedule.chunks)
    elements = window(part, memory.slot_bytes if memory else staging(schedule.ranks)[1], item)
    message_nbytes = min(elements, chunk) * item.itemsize * part.widest
    return as_run(lower(schedule), max(-(-chunk // elements), 1), message_nbytes, in_place)


def proved(names: str, ranks: int) -> str:
    """Algorithms, as `two_shot,mine.py:function`, as ranks in any folder find them; a user's own are proved for every
    root."""
    asked = names.split(",")
    for name in asked:
        for collective_name in find(name).serves:
            for root in roots(collective_name, ranks):
                prove_own(name, collective_name, ranks, root)
    return ",".join(absolute(name) if is_reference(name) else name for name in asked)
