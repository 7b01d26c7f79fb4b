"""Finds the rank that diverged first, and how: compares the dumps of a hang.

In each group the first call in which a rank waits in vain is looked at, later ones follow from it. A rank that did not
come to a call may itself wait in another group: then that other group's call is the cause, and so on, to a call whose
missing rank waits for nobody, or round in a circle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ringtree.formats.flight.channels import Channel, Parts, alike, channels, signature
from ringtree.formats.flight.dumps import Dump, DumpError, Operation


class HangKind(Enum):
    """The reason that keeps a call from its end."""

    MISMATCH = "mismatch"
    MISSING = "missing"
    NO_DUMP = "no dump"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class Hang:
    """A call that somebody waits in. `calls`: the parts of each rank that came to it; `waiting`: those that it has not
    ended for; `absent`: ranks that did not come; `undumped`: members without a dump, of which nothing is known.
    `classes`: ranks whose calls fit each other, the most first; `shift`: as in _shift."""

    kind: HangKind
    channel: Channel
    number: int
    calls: dict[int, Parts]
    waiting: tuple[int, ...]
    absent: tuple[int, ...]
    undumped: tuple[int, ...]
    classes: tuple[tuple[int, ...], ...]
    shift: int = 0

    @property
    def begun_ns(self) -> int:
        """The time at which the first rank came."""
        return min(part.begun_ns for parts in self.calls.values() for part in parts)

    @property
    def culprits(self) -> tuple[int, ...]:
        """The ranks that the others wait for, or that called something else than most; () where nobody stands out."""
        if self.kind is HangKind.MISMATCH:
            most, *others = self.classes
            return () if len(most) == len(others[0]) else tuple(sorted(r for ranks in others for r in ranks))
        return self.absent if self.kind is HangKind.MISSING else self.undumped


@dataclass(frozen=True, slots=True)
class Findings:
    """`first`: the hangs that no other explains, the earliest first; `circle`: hangs of which each explains the one
    before, if no hang comes first. `hangs`: the first of each group. `differed`: calls that ended although ranks called
    different things in them."""

    dumps: tuple[Dump, ...]
    channels: tuple[Channel, ...]
    hangs: tuple[Hang, ...]
    first: tuple[Hang, ...]
    circle: tuple[Hang, ...]
    differed: tuple[Hang, ...]

    def last(self, rank: int, channel: Channel) -> Operation | None:
        """The last call of a rank in a group."""
        calls = channel.calls.get(rank)
        return calls[max(calls)][-1] if calls else None

    def held(self, rank: int) -> Hang | None:
        """The hang that a rank is in: of the last call that it made and that has not ended."""
        return _held(self.hangs, rank)


def compare(dumps: Sequence[Dump]) -> Findings:
    """The findings of one dump of each rank. DumpError: if two are of one rank and differ."""
    by_rank: dict[int, Dump] = {}
    for dump in dumps:
        other = by_rank.setdefault(dump.rank, dump)
        if other is not dump and (other.operations, other.groups) != (dump.operations, dump.groups):
            raise DumpError(
                f"{other.path} and {dump.path} are both of rank {dump.rank}; expected one dump of each rank"
            )
    laid = channels(list(by_rank.values()))
    found = [hang for channel in laid for hang in (_first(channel, by_rank),) if hang is not None]
    hangs = sorted(found, key=lambda hang: hang.begun_ns)
    first = [hang for hang in hangs if _is_cause(hang, hangs)]
    differed = [hang for channel in laid for hang in (_differed(channel),) if hang is not None]
    return Findings(
        tuple(by_rank[rank] for rank in sorted(by_rank)),
        tuple(laid),
        tuple(hangs),
        tuple(first),
        tuple(_circle(hangs)) if hangs and not first else (),
        tuple(sorted(differed, key=lambda hang: hang.begun_ns)),
    )


def _first(channel: Channel, dumped: dict[int, Dump]) -> Hang | None:
    """The first call of a group in which somebody waits."""
    undumped = tuple(sorted(set(channel.ranks) - set(dumped)))
    for number in channel.numbers:
        calls = channel.arrived(number)
        waiting = tuple(rank for rank, parts in calls.items() if not all(part.completed for part in parts))
        if not waiting:
            continue
        absent, classes = channel.absent(number, dumped), tuple(alike(calls))
        if _from_anyone(calls):
            absent, classes = tuple(r for r in channel.ranks if r in dumped and r not in calls), classes[:1]
        kind = (
            HangKind.MISMATCH if len(classes) > 1
            else HangKind.MISSING if absent
            else HangKind.NO_DUMP if undumped
            else HangKind.UNFINISHED
        )  # fmt: skip
        shift = _shift(channel, number, classes) if kind is HangKind.MISMATCH else 0
        return Hang(kind, channel, number, calls, waiting, absent, undumped, classes, shift)
    return None


def _from_anyone(calls: dict[int, Parts]) -> bool:
    """Whether the call is a receive from any rank, which ringtree dumps as one from the rank itself."""
    return any(part.is_message and part.source == part.target for parts in calls.values() for part in parts)


def _differed(channel: Channel) -> Hang | None:
    for number in channel.numbers:
        calls = channel.arrived(number)
        if all(part.completed for parts in calls.values() for part in parts) and len(classes := alike(calls)) > 1:
            return Hang(HangKind.MISMATCH, channel, number, calls, (), (), (), tuple(classes))
    return None


def _shift(channel: Channel, number: int, classes: Sequence[Sequence[int]]) -> int:
    """1: the odd ranks' call is the others' next, so they left one out. -1: the other way round, they made one more.
    0: neither, or both."""
    if len(classes) != 2:
        return 0
    most, odd = (channel.calls[ranks[0]] for ranks in classes)

    def fits(mine: dict[int, Parts], theirs: dict[int, Parts]) -> bool:
        return number + 1 in theirs and signature(mine[number]) == signature(theirs[number + 1])

    return int(fits(odd, most)) - int(fits(most, odd))


def _held(hangs: Sequence[Hang], rank: int) -> Hang | None:
    held = [hang for hang in hangs if rank in hang.waiting]
    return max(held, key=lambda hang: max(part.begun_ns for part in hang.calls[rank]), default=None)


def _is_cause(hang: Hang, hangs: Sequence[Hang]) -> bool:
    """Whether one of the ranks that did not come waits nowhere else."""
    return hang.kind is not HangKind.MISSING or any(_held(hangs, rank) in (None, hang) for rank in hang.absent)


def _circle(hangs: Sequence[Hang]) -> list[Hang]:
    """From each hang to one that holds its missing rank, until one comes again."""
    path = [hangs[0]]
    while True:
        after = next(h for rank in path[-1].absent if (h := _held(hangs, rank)) is not None)
        if after in path:
            return path[path.index(after) :]
        path.append(after)
