"""What single ranks recorded, and how it becomes one trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.trace import Trace
from ringtree.runtime.engine import Recorded

APART_S = 1e-6
"""More than what ranks' times differ by that were the same: each reads the clock by itself, and a core its counter a
little ahead."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one rank recorded in one group, which all its members call `place`. `rank`, and the group's `members`, are
    as the trace counts ranks. `programs`: the names of what the calls with these digests ran."""

    place: str
    rank: int
    members: tuple[int, ...]
    recorded: Recorded
    programs: Mapping[int, str]

    def calls(self) -> list[str]:
        """As in "all_reduce(float32, sum, count 8) by ring"."""
        named = ((text, self.programs.get(digest)) for text, digest in self.recorded.calls)
        return [text if name is None else f"{text} by {name}" for text, name in named]


def merge(ranks: int, parts: Iterable[Part], place: str, facts: Mapping[str, str]) -> Trace:
    """One trace of all parts, in seconds since the first event. The group `place` has channel 0; the others follow,
    each with a fact that says who is in it. A fact also says how many events were dropped."""
    parts = sorted(parts, key=lambda part: part.rank)
    channels: dict[str, int] = {place: 0}
    calls: dict[str, int] = {}
    said = dict(facts)
    columns: dict[str, list[NDArray[np.generic]]] = {name: [] for name in (*Recorded._fields[:-2], "rank", "channel")}
    for part in parts:
        channel = channels.setdefault(part.place, len(channels))
        if channel:
            said[f"channel {channel}"] = f"ranks {', '.join(map(str, part.members))}"
        numbers = np.array([calls.setdefault(name, len(calls)) for name in part.calls()], np.int32)
        recorded = part.recorded
        mine = recorded._asdict() | {
            "call": numbers[recorded.call] if len(numbers) else recorded.call,
            "peer": np.array([*part.members, -1], np.int32)[recorded.peer],
            "rank": np.full(len(recorded.kind), part.rank, np.int32),
            "channel": np.full(len(recorded.kind), channel, np.int32),
        }
        for name, column in columns.items():
            column.append(mine[name])
    if dropped := sum(part.recorded.dropped for part in parts):
        said["dropped"] = str(dropped)
    whole = {name: np.concatenate(column) if column else np.empty(0) for name, column in columns.items()}
    zero_s = whole["start_s"].min() if len(whole["start_s"]) else 0.0
    for name in ("start_s", "end_s"):
        whole[name] = whole[name] - zero_s
    trace = Trace.of(ranks, **whole, calls=tuple(calls) or ("",), facts=said)
    _put_causes_first(trace, np.cumsum([0, *(len(part.recorded.kind) for part in parts)]).tolist())
    return trace


def _put_causes_first(trace: Trace, edges: list[int]) -> None:
    """Moves a SEND that seems to be later than what it caused: a rank may have been interrupted between a message and
    the time, which is told after it where that is cheaper. What is left of it is due to the clocks, little, and moves
    the receiver. The events of a part lie between two `edges`, in the order in which they were done."""
    send, wait = trace.messages()
    start_s, end_s = trace.start_s, trace.end_s
    late = start_s[send] > end_s[wait]
    for s, w in zip(send[late].tolist(), wait[late].tolist(), strict=True):
        first = s  # of what was told the same time
        while first not in edges and start_s[first - 1] == end_s[first - 1] == start_s[s]:
            first -= 1
        before_s = -np.inf if first in edges else end_s[first - 1]
        start_s[first : s + 1] = end_s[first : s + 1] = max(end_s[w], before_s)
    for _ in edges:
        late_s = start_s[send] - end_s[wait]
        moved = (late_s > 0) & (late_s < APART_S)
        if not moved.any():
            return
        np.maximum.at(end_s, wait[moved], start_s[send][moved])
        for first, last in pairwise(edges):
            so_far = np.maximum.accumulate(end_s[first:last])
            start_s[first + 1 : last] = np.maximum(start_s[first + 1 : last], so_far[:-1])
            end_s[first:last] = np.maximum(end_s[first:last], start_s[first:last])
