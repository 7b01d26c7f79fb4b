"""Recordings of single ranks, and their joining into one trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.host_clocks import clock_facts, hosts_fact
from ringtree.ir.trace import Event, Trace
from ringtree.runtime.engines.protocols import Recorded
from ringtree.runtime.tracing.between_hosts import early_arrivals, last_until_arrival, with_arrivals
from ringtree.runtime.tracing.clocks import AlignedClock
from ringtree.runtime.tracing.message_parts import LONE, channels_apart

APART_S = 1e-6
"""More than what ranks' times differ by that were the same: each reads the clock by itself, and a core its counter a
little ahead."""

NONE_APART: Mapping[int, AlignedClock] = MappingProxyType({})
"""The clocks of ranks that are on one host."""

What = Literal["calls", "messages", "spans"]


@dataclass(frozen=True, slots=True)
class RankRecording:
    """The recording of one rank in one group, whose key is `group`: its collective calls, its messages or the program's
    own work. `rank`, and the group's `members`, are as the trace counts ranks. `programs`: the program's name for each
    call's digest."""

    group: str
    rank: int
    members: tuple[int, ...]
    recorded: Recorded
    programs: Mapping[int, str]
    what: What = "calls"

    def calls(self) -> list[str]:
        """The calls' names, such as "all_reduce(float32, sum, count 8) by ring"."""
        named = ((text, self.programs.get(digest)) for text, digest in self.recorded.calls)
        return [text if name is None else f"{text} by {name}" for text, name in named]


class _Piece(NamedTuple):
    """Events of one rank in columns as a trace has them, but for `call`, which counts `names`. `in_turn`: in the order
    in which they were done, none of them before the last was over."""

    columns: dict[str, NDArray[Any]]
    names: list[str]
    in_turn: bool


def merge(
    ranks: int,
    parts: Iterable[RankRecording],
    group: str,
    facts: Mapping[str, str],
    hosts: Sequence[int] = (),
    clocks: Mapping[int, AlignedClock] = NONE_APART,
) -> Trace:
    """One trace of all parts, in seconds since the first event. The calls of the group whose key is `group` have
    channel 0; the others follow, each with a fact that names its ranks. A fact has the number of dropped events.

    `hosts`: of each rank, where they are on several; `clocks`: those of the other hosts than rank 0's, by which their
    times are corrected. Facts have both."""
    host_of = np.array(hosts or [0] * ranks)
    parts = [
        _corrected(part, clocks.get(int(host_of[part.rank]))) for part in sorted(parts, key=lambda part: part.rank)
    ]
    noted = dict(facts) | hosts_fact(hosts) | clock_facts({host: clock.kept for host, clock in clocks.items()})
    calls: dict[str, int] = {}
    pieces = list(_pieces(parts, group, noted))
    names = (*Recorded._fields[:-2], "rank", "channel", "arrived_s")
    columns: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
    for piece in pieces:
        numbers = np.array([calls.setdefault(name, len(calls)) for name in piece.names], np.int32)
        for name, column in columns.items():
            mine = piece.columns[name]
            column.append(numbers[mine] if name == "call" and len(numbers) else mine)
    if dropped := sum(part.recorded.dropped for part in parts):
        noted["dropped"] = str(dropped)
    whole = {name: np.concatenate(column) if column else np.empty(0) for name, column in columns.items()}
    zero_s = whole["start_s"].min() if len(whole["start_s"]) else 0.0
    for name in ("start_s", "end_s", "arrived_s"):
        whole[name] = whole[name] - zero_s
    arrived_s = whole.pop("arrived_s")
    trace = Trace.of(ranks, **whole, calls=tuple(calls) or ("",), facts=noted)
    ends = np.cumsum([0, *(len(piece.columns["kind"]) for piece in pieces)]).tolist()
    in_turn = [span for span, piece in zip(pairwise(ends), pieces, strict=True) if piece.in_turn]
    early = early_arrivals(trace, host_of, arrived_s)
    _put_causes_first(trace, set(ends), in_turn, _apart_s(host_of, clocks))
    last_until_arrival(trace, host_of, arrived_s)
    return replace(trace, facts=noted | early)


def _corrected(part: RankRecording, clock: AlignedClock | None) -> RankRecording:
    """The part in the time of rank 0's host."""
    if clock is None:
        return part
    start_s, end_s = (clock.corrected(times_s) for times_s in (part.recorded.start_s, part.recorded.end_s))
    return replace(part, recorded=part.recorded._replace(start_s=start_s, end_s=end_s))


def _apart_s(host_of: NDArray[np.int64], clocks: Mapping[int, AlignedClock]) -> NDArray[np.float64]:
    """[ranks, ranks] seconds by which the times of two ranks may be apart: on two hosts also by the errors of both
    clocks."""
    error_s = np.array([clocks[host].error_s if host in clocks else 0.0 for host in host_of.tolist()])
    return np.where(host_of[:, None] == host_of, 0.0, error_s[:, None] + error_s) + APART_S


def _pieces(parts: Sequence[RankRecording], group: str, noted: dict[str, str]) -> Iterator[_Piece]:
    """The parts with ranks and channels as the trace counts them. Adds each channel's contents to the facts."""
    channels: dict[tuple[str, What, int], int] = {(group, "calls", 0): 0}
    apart = _messages_apart(parts)
    for i, part in enumerate(parts):
        recorded, arrived_s = with_arrivals(part.recorded)
        level, recorded = apart.get(i, (np.zeros(len(recorded.kind), np.int64), recorded))
        channel = np.zeros(len(level), np.int32)
        for k in np.unique(level).tolist() or [0]:
            number = channels.setdefault((part.group, part.what, k), len(channels))
            channel[level == k] = number
            if number:
                noted[f"channel {number}"] = _whose(part, k)
        columns = recorded._asdict() | {
            "peer": np.array([*part.members, -1], np.int32)[recorded.peer],
            "rank": np.full(len(channel), part.rank, np.int32),
            "channel": channel,
            "arrived_s": arrived_s,
        }
        at_once = recorded.kind == (Event.SEND if part.what == "messages" else Event.COMPUTE)  # overlap one another
        for those in (~at_once, at_once):
            mine = {name: column[those] for name, column in columns.items() if isinstance(column, np.ndarray)}
            yield _Piece(mine, part.calls(), those is not at_once)


def _whose(part: RankRecording, level: int) -> str:
    """The kind of a channel's events, and its ranks."""
    ranks = f"ranks {', '.join(map(str, part.members))}"
    if part.what == "calls":
        return ranks
    which = "" if level == 0 else "unpaired " if level >= LONE else "overtaken "
    return f"{which}{part.what} of {ranks}"


def _messages_apart(parts: Sequence[RankRecording]) -> dict[int, tuple[NDArray[np.int64], Recorded]]:
    """The channels and the events to show of the parts that are messages, by their position in the list."""
    groups: dict[str, list[int]] = {}
    for i, part in enumerate(parts):
        if part.what == "messages":
            groups.setdefault(part.group, []).append(i)
    found: dict[int, tuple[NDArray[np.int64], Recorded]] = {}
    for those in groups.values():
        by_rank = {parts[i].members.index(parts[i].rank): i for i in those}
        level, apart = channels_apart({rank: parts[i].recorded for rank, i in by_rank.items()})
        found |= {i: (level[rank], apart[rank]) for rank, i in by_rank.items()}
    return found


def _put_causes_first(
    trace: Trace, edges: set[int], in_turn: Sequence[tuple[int, int]], apart_s: NDArray[np.float64]
) -> None:
    """Moves a SEND that seems to be later than what it caused: a rank may have been interrupted between a message and
    its time, which is read after it where that is cheaper. The rest is due to the clocks, at most the ranks' `apart_s`,
    and moves the receiver, with all that it caused in turn. `edges`: where pieces begin and end; `in_turn`: of those
    whose events were done one after another."""
    send, wait = trace.messages()
    start_s, end_s, most_s = trace.start_s, trace.end_s, apart_s[trace.rank[send], trace.peer[send]]
    late = start_s[send] > end_s[wait]
    for s, w in zip(send[late].tolist(), wait[late].tolist(), strict=True):
        first = s  # of the events with the same time
        while first not in edges and start_s[first - 1] == end_s[first - 1] == start_s[s]:
            first -= 1
        before_s = -np.inf if first in edges else end_s[first - 1]
        start_s[first : s + 1] = end_s[first : s + 1] = max(end_s[w], before_s)
    known_s = start_s[send]  # as far as its own rank knows
    for _ in send:  # no chain of causes is longer
        late_s = start_s[send] - end_s[wait]
        moved = (late_s > 0) & (late_s < most_s + (start_s[send] - known_s))
        if not moved.any():
            return
        np.maximum.at(end_s, wait[moved], start_s[send][moved])
        for first, last in in_turn:
            so_far = np.maximum.accumulate(end_s[first:last])
            start_s[first + 1 : last] = np.maximum(start_s[first + 1 : last], so_far[:-1])
            end_s[first:last] = np.maximum(end_s[first:last], start_s[first:last])
