"""The cut of an algorithm's schedule for a size: named steps, each a transform, all by one model.

Sending b bytes in m messages one after the other over R rounds takes (R-1+m) * (latency + b/m/bandwidth), which is
least with m = sqrt((R-1) * b / (latency * bandwidth)). `latency * bandwidth`, the bytes that move in one message's
latency, is `CostParameters.message_nbytes`, so what `ringtree tune` measures moves the cuts. A piece that fits a
staging slot needs no further cut; a longer one passes through the slot window by window, and windows follow one another
without a pause.

    pieces=N, aggregate=N    the algorithm's own option of that name
    balanced                 sums are joined two at a time, in a balanced tree; only where the caller asks for it
    many_source              chunks that come to a position in several rounds are added up at once
    split(N)                 no message is longer than N chunks
    pipeline(N)              each chunk in N pieces, one after the other
    channels(N)              each chunk in N parts, side by side
    single_copy              whole chunks, which receivers read in the senders' memory; instead of all the others

Every rank finds the same steps from the same arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from math import sqrt

import numpy as np

from ringtree import transform
from ringtree.algorithms import build, find
from ringtree.ir.collective import collective as find_collective
from ringtree.ir.lower import lower
from ringtree.ir.schedule import Schedule
from ringtree.plan.nesting import NESTED, Options
from ringtree.plan.properties import balanced as balanced_algorithms
from ringtree.plan.tuning import CallTuning
from ringtree.price.memory import Counts, SharedMemory, Workload, counts, quote
from ringtree.verify import is_balanced, prove_programs

MOST_TRANSFERS = 8192
"""The most transfers of a cut schedule, whose proof at the first call takes up to 0.2 s over 8 ranks, 1 s over 64."""
MOST_NESTED_TRANSFERS = 1 << 16
"""The most of one that is nested and not cut, as over 256 ranks: without it, each rank of a host sends to each of all
others, and each call takes longer than the proof."""
SINGLE_COPY_BYTES = 1 << 15
"""The least bytes of a message that are worth the system call by which its receiver reads it in the sender's memory."""
TRIAL_BYTES = 1 << 17
"""The least bytes of a message whose way is tried: calls of shorter ones take as long as their ranks' waits differ."""
UNSTAGED = CallTuning(single_copy=True)
MOST_INSTRUCTIONS = 4096
"""The most instructions of the longest program."""


def steps_for(
    algorithm: str,
    collective: str,
    ranks: int,
    root: int | None,
    nbytes: int,
    memory: SharedMemory,
    options: Options = (),
    balanced: bool = False,
) -> CallTuning:
    """The steps for a whole vector of `nbytes` in a group with the memory's staging slots and costs of a message.

    They are those of the next power of two, so that ever-new lengths are not proved again and again. Steps that would
    need more slots than there are, or a longer program than MOST_INSTRUCTIONS, are taken back. `options`: the
    algorithm's own, as of a Choice. `balanced`: sums by the balanced tree over ranks (verify.is_balanced). ValueError:
    if the algorithm has none.
    """
    what = algorithm, collective, ranks, root
    if balanced and ranks > 1:
        free = _steps(
            *what, _rounded(nbytes), memory.slots, memory.slot_bytes, memory.parameters.message_nbytes, options
        )
        return _balanced(free, *what, memory.slots)
    if wanted(*what, nbytes, memory, options).single_copy and (found := _unstaged(*what, memory.slots)):
        return found
    lengths = memory.slot_bytes, memory.parameters.message_nbytes
    return _steps(*what, _rounded(nbytes), memory.slots, *lengths, options)


@lru_cache(maxsize=512)
def _balanced(
    free: CallTuning, algorithm: str, collective: str, ranks: int, root: int | None, slots: int
) -> CallTuning:
    what = algorithm, collective, ranks, root
    if not is_balanced(CallTuning(free.options, balanced=True).apply(*what)):
        raise ValueError(
            f"{algorithm} does not add up {collective} over {ranks} ranks in a balanced tree: expected one of "
            f"{', '.join(balanced_algorithms(collective, ranks))}"
        )
    return fitting(replace(free, balanced=True, many_source=False, slots=0), *what, slots)


@lru_cache(maxsize=512)
def _unstaged(algorithm: str, collective: str, ranks: int, root: int | None, slots: int) -> CallTuning:
    return fitting(UNSTAGED, algorithm, collective, ranks, root, slots)


@lru_cache(maxsize=512)
def _steps(
    algorithm: str,
    collective: str,
    ranks: int,
    root: int | None,
    nbytes: int,
    slots: int,
    slot_bytes: int,
    message_nbytes: float,
    options: Options,
) -> CallTuning:
    if ranks < 2 or find_collective(collective).repeats:
        return CallTuning()
    wished = _wanted(algorithm, collective, ranks, root, nbytes, slot_bytes, message_nbytes, options)
    found = fitting(wished, algorithm, collective, ranks, root, slots)
    if options and found.options[: len(options)] != options:  # too many transfers to cut
        uncut = CallTuning(options)
        needed = prove_programs(lower(uncut.apply(algorithm, collective, ranks, root))).slots
        return replace(uncut, slots=needed) if needed <= slots else CallTuning()
    return found


def fitting(
    wanted: CallTuning, algorithm: str, collective: str, ranks: int, root: int | None, slots: int
) -> CallTuning:
    """The tuning that is wanted, or as much of it as `slots` staging slots and MOST_INSTRUCTIONS allow, proved."""
    least, what = CallTuning(balanced=wanted.balanced), (algorithm, collective, ranks, root)
    while wanted != least:
        room = slots // 2 if wanted.channels > 1 else slots  # half are for a rank that is a call ahead
        if _least_slots(wanted, *what) <= room and 0 < (needed := _slots(wanted, *what)) <= room:
            return replace(wanted, slots=needed)
        wanted = _fewer(wanted)
    if not least:
        return least
    return replace(least, slots=prove_programs(lower(least.apply(*what))).slots)


def _least_slots(steps: CallTuning, algorithm: str, collective: str, ranks: int, root: int | None) -> int:
    """Staging slots that the steps need at least: side by side, all messages that are under way at once but the last
    are so in each channel. Proved is one channel only, in a quarter of the time of four."""
    one = _slots(replace(steps, channels=1), algorithm, collective, ranks, root) if steps.channels > 1 else 1
    return steps.channels * (one - 1) + 1


@lru_cache(maxsize=512)
def _slots(steps: CallTuning, algorithm: str, collective: str, ranks: int, root: int | None) -> int:
    """Staging slots of the proved programs; 0 where they are too long, or not balanced as asked."""
    schedule = steps.apply(algorithm, collective, ranks, root)
    whole = algorithm == NESTED and steps == CallTuning(steps.options)
    most = MOST_NESTED_TRANSFERS if whole else MOST_TRANSFERS
    if schedule.transfers > most or (steps.balanced and not is_balanced(schedule)):
        return 0
    programs = lower(schedule)
    return prove_programs(programs).slots if max(len(p.instructions) for p in programs) <= MOST_INSTRUCTIONS else 0


def wanted(
    algorithm: str,
    collective: str,
    ranks: int,
    root: int | None,
    nbytes: int,
    memory: SharedMemory,
    options: Options = (),
) -> CallTuning:
    """The tuning that `steps_for` tries first: without lowering or proof, and the group may have too few slots."""
    if ranks < 2 or find_collective(collective).repeats:
        return CallTuning()
    what, nbytes = (algorithm, collective, ranks, root), _rounded(nbytes)
    staged = _wanted(*what, nbytes, memory.slot_bytes, memory.parameters.message_nbytes, options)
    if options or not _may_be_unstaged(*what, nbytes, memory, SINGLE_COPY_BYTES):
        return staged
    staged_s, unstaged_s = (
        quote(Workload(_transfers(*what, single_copy, memory.node_of), single_copy=single_copy), memory, nbytes).seconds
        for single_copy in (False, True)
    )
    return UNSTAGED if unstaged_s < staged_s else staged


def other_way(
    steps: CallTuning,
    algorithm: str,
    collective: str,
    ranks: int,
    root: int | None,
    nbytes: int,
    memory: SharedMemory,
) -> CallTuning | None:
    """The other way to move the bytes of a call for which `steps_for` finds `steps`: staged in place of single copies,
    or the reverse; of sums over 2 ranks, too, which no price knows. None: there is none, or its messages are shorter
    than TRIAL_BYTES."""
    what = algorithm, collective, ranks, root
    if ranks < 2 or steps.options or steps.balanced or find_collective(collective).repeats:
        return None
    if not (_may_be_unstaged(*what, _rounded(nbytes), memory, TRIAL_BYTES) or _sums_both_ways(*what, nbytes, memory)):
        return None
    if steps.single_copy:
        lengths = memory.slot_bytes, memory.parameters.message_nbytes
        return _steps(*what, _rounded(nbytes), memory.slots, *lengths, ())
    return _unstaged(*what, memory.slots) or None


def _may_be_unstaged(
    algorithm: str, collective: str, ranks: int, root: int | None, nbytes: int, memory: SharedMemory, least: int
) -> bool:
    """Whether messages of at least `least` bytes may be read in their senders' memory: where nothing is reduced."""
    if not memory.single_copy_bytes or find_collective(collective).reduces:
        return False
    what = algorithm, collective, ranks, root
    return nbytes // _plain(*what).chunks >= least and _goes_directly(*what)


def _sums_both_ways(
    algorithm: str, collective: str, ranks: int, root: int | None, nbytes: int, memory: SharedMemory
) -> bool:
    """Whether each of 2 ranks sums a part of its own, which it may read in the other's memory by TRIAL_BYTES and more.
    Where one rank sums all, the other stages its messages while it would only wait."""
    if not memory.single_copy_bytes or ranks != 2 or root is not None or not find_collective(collective).reduces:
        return False
    chunks = _plain(algorithm, collective, ranks, root).chunks
    return chunks >= ranks and _rounded(nbytes) // chunks >= TRIAL_BYTES


@lru_cache(maxsize=256)
def _goes_directly(algorithm: str, collective: str, ranks: int, root: int | None) -> bool:
    """Whether all messages go in one round, and no bytes to several ranks: such are staged once for all of them, while
    the kernel would pin the sender's pages for each (3 readers of 256 KiB took twice as long)."""
    plain = _plain(algorithm, collective, ranks, root)
    if plain.rounds != 1:
        return False
    sent = [
        np.stack([rows.source, rows.source_buffer, rows.source_chunk], axis=1)[rows.source != rows.target]
        for rows in (block.rows for block in plain.blocks)
    ]
    return all(len(set(map(tuple, each.tolist()))) == len(each) for each in sent)


@lru_cache(maxsize=256)
def _transfers(
    algorithm: str, collective: str, ranks: int, root: int | None, single_copy: bool, node_of: tuple[int, ...]
) -> Counts:
    """The work of a call whose messages are read in place, or staged. A broadcast is called in place: its root has no
    copy to make beside its messages, so that to stage them for others costs no time."""
    plain = _plain(algorithm, collective, ranks, root)
    return counts(plain, node_of, single_copy=single_copy, in_place=collective == "broadcast")


def workload(
    algorithm: str,
    collective: str,
    ranks: int,
    root: int | None,
    steps: CallTuning,
    node_of: tuple[int, ...] = (),
    symmetric: bool = False,
) -> Workload:
    """The algorithm's schedule, cut by these steps, as `price` takes it: what only cuts it is not written out.
    `node_of`, `symmetric`: as of SharedMemory."""
    options = tuple((name, 1 if name == "pieces" else value) for name, value in steps.options)
    shape = CallTuning(options, steps.many_source, single_copy=steps.single_copy, balanced=steps.balanced)
    known = _counted(algorithm, collective, ranks, root, shape, node_of, symmetric)
    return Workload(known, steps.pieces * steps.pipeline * steps.channels, steps.split, steps.single_copy)


@lru_cache(maxsize=1024)
def _counted(
    algorithm: str,
    collective: str,
    ranks: int,
    root: int | None,
    steps: CallTuning,
    node_of: tuple[int, ...],
    symmetric: bool,
) -> Counts:
    what = algorithm, collective, ranks, root
    if steps.single_copy:
        return counts(_plain(*what), node_of, single_copy=True)
    given = dict(steps.options)
    if (
        steps.balanced
        or given.keys() - {"pieces"}
        or given.get("pieces", _own(algorithm, collective).get("pieces", 1)) != 1
    ):
        return counts(steps.apply(*what), node_of, symmetric=symmetric)
    return counts(_gathered(*what) if steps.many_source else _plain(*what), node_of, symmetric=symmetric)


def _own(algorithm: str, collective: str) -> Mapping[str, object]:
    """The algorithm's own options, and their defaults."""
    function = find(algorithm).functions.get(collective)
    return getattr(function, "__kwdefaults__", None) or {}


@lru_cache(maxsize=64)
def _plain(algorithm: str, collective: str, ranks: int, root: int | None, options: Options = ()) -> Schedule:
    """The algorithm's schedule in one piece: choosing and counting read the same one."""
    one = {"pieces": 1} if "pieces" in _own(algorithm, collective) else {}
    return build(algorithm, collective, ranks, root, **one, **dict(options))


@lru_cache(maxsize=64)
def _gathered(algorithm: str, collective: str, ranks: int, root: int | None, options: Options = ()) -> Schedule:
    return transform.many_source(_plain(algorithm, collective, ranks, root, options))


@lru_cache(maxsize=64)
def _gathers(algorithm: str, collective: str, ranks: int, root: int | None, options: Options = ()) -> bool:
    """Whether the schedule has anything to add up at once. Not by `_gathered`, which may outlive its `_plain`."""
    plain = _plain(algorithm, collective, ranks, root, options)
    return transform.many_source(plain) is not plain


def _rounded(nbytes: int) -> int:
    """The next power of two."""
    return 1 << (nbytes - 1).bit_length() if nbytes else 0


@lru_cache(maxsize=2048)
def _wanted(
    algorithm: str,
    collective: str,
    ranks: int,
    root: int | None,
    nbytes: int,
    slot_bytes: int,
    message_nbytes: float,
    given: Options,
) -> CallTuning:
    """The model's tuning, before `steps_for` removes steps."""
    what = algorithm, collective, ranks, root, given
    plain, own = _plain(*what), _own(algorithm, collective)
    chunk_nbytes = nbytes // plain.chunks
    widest = max((int(b.rows.count.max(initial=1)) for b in plain.blocks), default=1)
    options: dict[str, int | str] = {}
    pieces = channels = 1
    split = 0
    if "pieces" in own or find(algorithm).costs[collective].pipelines:
        pieces = _pieces(plain.rounds, int(plain.chunks_sent().max()) * chunk_nbytes, message_nbytes)
    elif plain.rounds > 2 and widest * chunk_nbytes >= 2 * slot_bytes:
        channels = 2  # as many messages as its windows were, and one is under way while the other is worked on
    # a span of a chunk is worth an instruction each time if it takes as long to move as a message does
    span = max(min(chunk_nbytes // pieces, _power(message_nbytes)), 1)
    if widest * span > slot_bytes:
        split = max(slot_bytes // span, 1)
    several = pieces > 1 or widest * chunk_nbytes > slot_bytes  # consecutive messages count then, not waits
    gathered = several and _gathers(*what)
    if "pieces" in own:
        options["pieces"], pieces = pieces, 1
    if split and "aggregate" in own:
        options["aggregate"], split = 1 << (split.bit_length() - 1), 0
    asked = tuple((name, value) for name, value in options.items() if own[name] != value)
    return CallTuning(given + asked, gathered, split, pieces, channels)


def _pieces(rounds: int, sent_nbytes: int, message_nbytes: float) -> int:
    """The model's m, as a power of two so that like sizes share a program."""
    return _power(sqrt((rounds - 1) * sent_nbytes / message_nbytes))


def _power(number: float) -> int:
    """The largest power of two that is at most `number`; 1 at least."""
    return 1 << max(int(number).bit_length() - 1, 0)


def _fewer(steps: CallTuning) -> CallTuning:
    """The next best: half the pieces, then a step less, until nothing is left."""
    if steps.pieces > 1:
        return replace(steps, options=tuple((n, steps.pieces // 2 if n == "pieces" else v) for n, v in steps.options))
    if steps.pipeline > 1:
        return replace(steps, pipeline=steps.pipeline // 2)
    if steps.channels > 1:
        return replace(steps, channels=1)
    if steps.split:
        return replace(steps, split=0)
    return CallTuning(balanced=steps.balanced)
