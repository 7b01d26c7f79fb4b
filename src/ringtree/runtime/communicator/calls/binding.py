"""Turns a schedule into a plan that an engine can run: this rank's program, and the places of its chunks in memory."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree import verify
from ringtree.ir.collective import collective as find_collective
from ringtree.ir.digest import sha256
from ringtree.ir.landing import Landing, landings
from ringtree.ir.lower import lower, lower_rank
from ringtree.ir.plain_messages import PlainMessages, plain_messages
from ringtree.ir.program import Program
from ringtree.ir.schedule import COLUMNS, Schedule
from ringtree.plan.tuning import CallTuning
from ringtree.runtime.communicator.calls.plans import Same
from ringtree.runtime.engines.protocols import Land

if TYPE_CHECKING:
    from ringtree.runtime.engines.engine import JoinedGroup
    from ringtree.runtime.engines.protocols import Programs
    from ringtree.runtime.types import Dtype

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class RankProgram:
    """One rank's part of a schedule, and what the ranks that run it share: `digest` identifies the schedule; `widest`
    is the most chunks that a message of any rank has; `single_copy`: messages are read in their senders' memory.
    `schedule`: what it is a part of."""

    program: Program
    digest: int
    widest: int
    single_copy: bool = False
    schedule: Schedule | None = field(default=None, compare=False, repr=False)

    @cached_property
    def tables(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The program as engines take it; kept, for a part is bound to many sizes."""
        return self.program.encode()


class BoundPlan(NamedTuple):
    """A plan of the engine's, and why it was chosen. Offsets are the windows' first elements on the whole vector;
    `aliasable`: whether input and output may be the same memory, position by position."""

    plan: int
    part: RankProgram
    why: str
    input_start: int
    output_start: int
    aliasable: bool


@lru_cache(maxsize=512)
def built(
    algorithm: str, collective: str, ranks: int, root: int, rank: int, steps: CallTuning | None = None
) -> RankProgram:
    """A registered algorithm's program for `rank`, cut by these steps."""
    part = part_of(_scheduled(algorithm, collective, ranks, root, steps), rank)
    return replace(part, single_copy=True, digest=part.digest ^ 1) if steps and steps.single_copy else part


def slots_needed(schedule: Schedule) -> int:
    """The fewest staging slots a rank with which its programs end; proves them. ProofError where they never do."""
    return verify.prove_programs(lower(schedule)).slots


@lru_cache(maxsize=512)
def slots_needed_by(algorithm: str, collective: str, ranks: int, root: int) -> int:
    """The slots needed by a registered algorithm that is not cut."""
    return slots_needed(_scheduled(algorithm, collective, ranks, root, None))


def _scheduled(algorithm: str, collective: str, ranks: int, root: int, steps: CallTuning | None) -> Schedule:
    return (steps or CallTuning()).apply(algorithm, collective, ranks, root if root >= 0 else None)


@lru_cache(maxsize=512)
def order_of(algorithm: str, collective: str, ranks: int, root: int) -> verify.ReductionOrder:
    """The order in which a registered algorithm adds up."""
    return verify.rank_order(_scheduled(algorithm, collective, ranks, root, None))


def part_of(schedule: Schedule, rank: int) -> RankProgram:
    """The rank's program of a schedule, lowered here. Cost: O(transfers)."""
    widest = max((int(block.rows.count.max(initial=1)) for block in schedule.blocks), default=1)
    return RankProgram(lower_rank(schedule, rank), _digest(schedule), widest, schedule=schedule)


def bind(
    joined: JoinedGroup,
    part: RankProgram,
    rank: int,
    dtype: Dtype,
    op: int,
    count: int,
    why: str,
    counts: Ints | None = None,
    packed: int = 0,
) -> BoundPlan:
    """Prepares the program for a whole vector of `count` elements (a multiple of ranks where it is n blocks).

    `counts`: elements of each block, [ranks], or where the collective transposes from each rank (row) to each (column),
    [ranks, ranks], the same on all ranks; `count` is their sum then. `packed` as in CallRequest.
    """
    p = part.program
    promise = find_collective(p.collective)
    root = -1 if p.root is None else p.root
    sizes = chunk_sizes(p, count, counts)
    where = (rank, p.ranks, p.chunks, max(root, 0))
    given, gotten = sizes[promise.precondition_labels(*where)], sizes[promise.postcondition_labels(*where)]
    instructions, operands = part.tables
    known = _known_of_messages(part, rank, sizes) if getattr(joined.endpoint, "takes_landings", False) else {}
    plan = joined.endpoint.prepare(
        instructions,
        operands,
        sizes,
        np.cumsum(given) - given,
        np.cumsum(gotten) - gotten,
        p.scratch,
        window(part, max(part.single_copy * joined.single_copy_bytes, joined.slot_bytes), dtype),
        int(dtype),
        op,
        p.collective,
        root,
        count,
        part.digest ^ packed ^ (0 if counts is None else zlib.crc32(counts.astype(np.int64).tobytes())),
        part.single_copy,
        **known,
    )
    moved = promise.transposes and counts is not None  # a position of the input is elsewhere in the output
    return BoundPlan(
        plan,
        part,
        why,
        int(sizes[: promise.precondition(*where).start].sum()),
        int(sizes[: promise.postcondition(*where).start].sum()),
        p.aliasable and not moved,
    )


def bind_synchronization(
    endpoint: Programs, ranks: int, rank: int, collective: str, dtype: Dtype, root: int, count: int, digest: int
) -> BoundPlan:
    """Prepares a message without payload from every rank to every rank, with the fingerprint of such a call."""
    part, none = built("bruck", "all_gather", ranks, -1, rank), np.zeros(ranks, np.int64)
    room = part.program.scratch, 1, int(dtype), -1
    plan = endpoint.prepare(*part.tables, none, none[:1], none, *room, collective, root, count, digest)
    return BoundPlan(plan, part, "ranks synchronize before a call that is made elsewhere", 0, 0, False)


def bind_own(
    joined: JoinedGroup, ranks: int, rank: int, collective: str, dtype: Dtype, op: int, root: int, count: int
) -> BoundPlan | None:
    """Prepares the engine's own call of that collective; None where it has none. Its program is empty."""
    own = joined.own
    if own is None or not count or not own.serves(collective, int(dtype), op):
        return None
    promise = find_collective(collective)
    program = Program(own.own_name, collective, rank, ranks, ranks, ((),), root if root >= 0 else None)
    sizes, where = chunk_sizes(program, count), (rank, ranks, ranks, max(root, 0))
    given, gotten = sizes[promise.precondition_labels(*where)], sizes[promise.postcondition_labels(*where)]
    digest = zlib.crc32(own.own_name.encode())
    plan = own.prepare_own(collective, int(dtype), op, root, count, digest, (int(given.sum()), int(gotten.sum())))
    return BoundPlan(
        plan,
        RankProgram(program, digest, 1),
        "the engine has this collective itself",
        int(sizes[: promise.precondition(*where).start].sum()),
        int(sizes[: promise.postcondition(*where).start].sum()),
        not promise.transposes,
    )


def _known_of_messages(part: RankProgram, rank: int, sizes: Ints) -> dict[str, Any]:
    """The facts of a rank's messages that the programs of all ranks prove, as an engine of devices takes them."""
    plain = None if part.schedule is None else _plain_messages_of(Same(part.schedule))
    return {"lands": _lands(part, rank, sizes), "plain": plain}


def _lands(part: RankProgram, rank: int, sizes: Ints) -> tuple[Land, ...]:
    """The messages of this rank that may land in their receivers' output."""
    if part.schedule is None:
        return ()
    found, promise, p = [], find_collective(part.program.collective), part.program
    for instruction, peer, target in _landings(part.schedule, rank):
        labels = promise.postcondition_labels(peer, p.ranks, p.chunks, p.root or 0)
        found.append(Land(instruction, peer, int(sizes[labels][: target.index].sum())))
    return tuple(found)


@lru_cache(maxsize=64)
def _plain_messages_of(schedule: Same) -> PlainMessages | None:
    return plain_messages(_programs_of(schedule))


@lru_cache(maxsize=64)
def _landings_of(schedule: Same, rank: int) -> tuple[Landing, ...]:
    return landings(_programs_of(schedule), rank)


@lru_cache(maxsize=2)
def _programs_of(schedule: Same) -> tuple[Program, ...]:
    return lower(schedule.schedule)


def _landings(schedule: Schedule, rank: int) -> tuple[Landing, ...]:
    return _landings_of(Same(schedule), rank)


def chunk_sizes(program: Program, count: int, counts: Ints | None = None) -> Ints:
    """Elements of each chunk by its label; `counts` as in `bind`, by default all blocks are alike."""
    return find_collective(program.collective).chunk_sizes(program.ranks, program.chunks, count, counts)


def window(part: RankProgram, slot_bytes: int, dtype: Dtype) -> int:
    """Elements of a chunk that are done at a time, so that the widest message fits a slot; the same on all ranks."""
    elements = slot_bytes // dtype.itemsize // part.widest
    if elements < 1:
        raise ValueError(
            f"{part.program.name}: a message of {part.widest} chunks does not fit a staging slot of {slot_bytes} "
            "bytes; expected fewer chunks a transfer"
        )
    return elements // 64 * 64 or elements  # whole cache lines, where there are any


def _digest(schedule: Schedule) -> int:
    """32 bits of a schedule's contents; its name has no part in them."""
    s = schedule
    state = sha256(repr((s.collective, s.ranks, s.chunks, s.root, s.scratch)).encode())
    for block in s.blocks:
        state.update(repr((block.times, block.shift)).encode())
        for name in COLUMNS:
            state.update(getattr(block.rows, name).tobytes())
    return int.from_bytes(state.digest()[:4], "little")
