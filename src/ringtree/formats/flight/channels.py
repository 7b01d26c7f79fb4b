"""The operations of several dumps, laid side by side: by group and number, the same on every rank that took part."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from ringtree.formats.flight.dumps import Dump, Operation, RecordedGroup, Tensor

Parts = tuple[Operation, ...]
"""The operations of one rank with one number: several where they were coalesced."""


@dataclass(slots=True)
class Channel:
    """A group's collectives, or the messages from one of its ranks to another. `calls`: by rank, then by number."""

    group: RecordedGroup
    ranks: tuple[int, ...]
    is_messages: bool = False
    calls: dict[int, dict[int, Parts]] = field(default_factory=lambda: defaultdict(dict))

    @property
    def numbers(self) -> list[int]:
        """All that occur, in order."""
        return sorted({number for calls in self.calls.values() for number in calls})

    def arrived(self, number: int) -> dict[int, Parts]:
        """The ranks that made the call of that number."""
        return {rank: calls[number] for rank, calls in sorted(self.calls.items()) if number in calls}

    def absent(self, number: int, dumped: Iterable[int]) -> tuple[int, ...]:
        """Ranks with a dump that have not come to the call of that number: its calls end before it."""
        members = set(self.ranks)
        return tuple(r for r in sorted(dumped) if r in members and max(self.calls.get(r) or (-1,)) < number)


def channels(dumps: Sequence[Dump]) -> list[Channel]:
    """The channels of all dumps; a group is known by its name and its ranks."""
    everyone = tuple(sorted(dump.rank for dump in dumps))
    found: dict[tuple[object, ...], Channel] = {}
    for dump in dumps:
        by_ringtree = dump.writer.startswith("ringtree")
        waiting: Counter[tuple[object, ...]] = Counter()
        for operation in dump.operations:
            group, number = operation.group, operation.number
            ranks = group.ranks or everyone
            key: tuple[object, ...] = (group.name, ranks)
            is_message = operation.is_message
            if is_message and not by_ringtree:
                # Its number counts this rank's messages only. Those that have ended had a counterpart; the others are
                # under way, in the order in which they began.
                if operation.completed or operation.source is None or operation.target is None:
                    continue
                source, target = _global(ranks, operation.source), _global(ranks, operation.target)
                key, ranks = (*key, source, target), (source, target)
                waiting[key] += 1
                number = waiting[key]
                group = RecordedGroup(f"{group.name}: {source}->{target}", "", ranks)
            channel = found.setdefault(key, Channel(group, ranks, is_message))
            mine = channel.calls[dump.rank]
            mine[number] = (*mine.get(number, ()), operation)
    return list(found.values())


def _global(ranks: Sequence[int], rank: int) -> int:
    return ranks[rank] if rank < len(ranks) else rank


def alike(calls: Mapping[int, Parts]) -> list[tuple[int, ...]]:
    """Ranks whose calls fit each other, the most ranks first."""
    classes: dict[object, list[int]] = defaultdict(list)
    for rank, parts in calls.items():
        classes[signature(parts)].append(rank)
    return sorted((tuple(ranks) for ranks in classes.values()), key=lambda ranks: (-len(ranks), ranks))


def signature(parts: Parts) -> object:
    """The properties that the ranks of a call must have in common."""
    named = [part for part in parts if part.name != "coalesced"] or parts
    return tuple(_signature(part) for part in named)


def _signature(part: Operation) -> object:
    name = part.name
    if part.is_message:
        return ("message", _sizes(part.inputs if name == "send" else part.outputs))
    if name.startswith(("all_to_all", "alltoall")):
        return (name, tuple(sorted({dtype for dtype, _ in (*part.inputs, *part.outputs)})))
    if name in ("barrier", "coalesced"):
        return name
    if name == "scatter":  # only the root has inputs
        return (name, _sizes(part.outputs))
    if name in ("gather", "reduce"):  # only the root has outputs
        return (name, _sizes(part.inputs))
    return (name, _sizes(part.inputs), _sizes(part.outputs))


def _sizes(tensors: Sequence[Tensor]) -> tuple[tuple[str, int], ...]:
    """Types and numbers of elements: shapes may differ."""
    return tuple((dtype, prod(shape)) for dtype, shape in tensors)
