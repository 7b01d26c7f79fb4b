"""Two traces of the same ranks in words: where the times differ, and by how much. Real beside simulated, or before
beside after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.draw.text.host_links import compared_links
from ringtree.draw.text.tables import aligned
from ringtree.draw.text.timeline import drawing, legend_of, work_of
from ringtree.ir.critical_path import critical_path
from ringtree.ir.own_work import uncovered
from ringtree.ir.trace import Trace
from ringtree.ir.units import count, duration, size

LEAST_S = 1e-15
"""Below a clock's resolution no ratio is computed."""
MOST_ROWS = 16
"""The most ranks in a table: the ones whose times differ most."""
MOST_DEVIATIONS = 5


def comparison(first: Trace, second: Trace, width: int = 100) -> str:
    """Both drawn on one scale, then what differs. ValueError where they are of different numbers of ranks."""
    if first.ranks != second.ranks:
        raise ValueError(f"traces of {first.ranks} and {second.ranks} ranks; expected two of as many")
    both, names = (first, second), labels(first, second)
    span_s = max(trace.makespan_s for trace in both)
    parts = [drawing(trace, critical_path(trace), width, span_s).splitlines() for trace in both]
    parts += [
        [legend_of(*both)],
        _makespans(both, names),
        _ranks(both, names),
        _bytes(both, names),
        _calls(both, names),
    ]
    parts += [lines for lines in (compared_links(both, names), _messages(both, names)) if lines]
    return "\n\n".join("\n".join(lines) for lines in parts)


def labels(first: Trace, second: Trace) -> tuple[str, str]:
    """The names of the two: by their source where it differs."""
    sources = (first.facts.get("source", ""), second.facts.get("source", ""))
    return sources if all(sources) and sources[0] != sources[1] else ("first", "second")


def _makespans(both: tuple[Trace, Trace], names: tuple[str, str]) -> list[str]:
    """The whole, and what is left of it without the wait for a rank that began late: of that, no model knows."""
    lines = []
    for what, seconds in (
        ("makespan", [trace.makespan_s for trace in both]),
        ("from when the last rank began", [all_begun_seconds(trace) for trace in both]),
    ):
        ratio = f"; {names[1]} / {names[0]} = {seconds[1] / seconds[0]:.3g}" if seconds[0] > LEAST_S else ""
        lines.append(f"{what}: {names[0]} {duration(seconds[0])}, {names[1]} {duration(seconds[1])}{ratio}")
    return lines


def all_begun_seconds(trace: Trace) -> float:
    """Seconds from the last rank's begin to the end of the trace."""
    begun_s = np.full(trace.ranks, -np.inf)  # where nothing is recorded
    np.maximum.at(begun_s, trace.rank, -trace.start_s)
    recorded = begun_s[np.isfinite(begun_s)]
    return float(trace.end_s.max() + recorded.min()) if len(recorded) else 0.0


def _ranks(both: tuple[Trace, Trace], names: tuple[str, str]) -> list[str]:
    """Seconds of each rank by kind of work in both traces, without kinds that neither has."""
    seconds = np.stack([uncovered(trace)[0].kind_seconds() for trace in both], axis=-1)  # [ranks, kinds, 2]
    work = work_of(*both)
    kinds = [kind for kind in work if seconds[:, kind].any()]
    seconds = seconds[:, kinds]
    apart = np.abs(seconds[..., 0] - seconds[..., 1]).sum(axis=1)
    listed = sorted(np.argsort(-apart, kind="stable")[:MOST_ROWS].tolist())
    rows = [["", *(cell for kind in kinds for cell in ("", work[kind]))], ["rank", *names * len(kinds)]]
    rows += [[str(rank), *map(duration, seconds[rank].ravel().tolist())] for rank in listed]
    rows.append(["all", *map(duration, seconds.sum(axis=0).ravel().tolist())])
    left = len(apart) - len(listed)
    return aligned(rows) + ([f"… and {count(left, 'rank')} that differ less"] if left else [])


def _bytes(both: tuple[Trace, Trace], names: tuple[str, str]) -> list[str]:
    """Whether the same bytes went between the same ranks."""
    each = [trace.sent_of_pairs() for trace in both]
    pairs = np.union1d(each[0][0], each[1][0])
    a, b = np.zeros((2, len(pairs)), dtype=np.int64)
    for nbytes, (there, sent) in zip((a, b), each, strict=True):
        nbytes[np.searchsorted(pairs, there)] = sent
    differ = np.flatnonzero(a != b)
    if not len(differ):
        return [
            f"bytes per pair of ranks: equal ({count(int(np.count_nonzero(a)), 'pair')}, {size(int(a.sum()))} in all)"
        ]
    lines = [
        f"{pairs[k] // both[0].ranks} to {pairs[k] % both[0].ranks}: "
        f"{names[0]} {size(int(a[k]))}, {names[1]} {size(int(b[k]))}"
        for k in differ[np.argsort(-np.abs(a - b)[differ], kind="stable")]
    ]
    return _most(f"bytes differ for {count(len(differ), 'pair')} of ranks:", lines, len(lines))


def _calls(both: tuple[Trace, Trace], names: tuple[str, str]) -> list[str]:
    """The time of each call, from its first event on any rank to its last."""
    if len(both[0].calls) != len(both[1].calls):
        counts = " and ".join(f"{name} {len(trace.calls)}" for name, trace in zip(names, both, strict=True))
        return [f"calls are not compared: {counts}"]
    a, b = (_call_seconds(trace) for trace in both)
    lines = []
    for call in _furthest(a, b):
        ours, theirs = both[0].calls[call] or "the call", both[1].calls[call]
        named = ours if theirs in (ours, "") else f"{ours} / {theirs}"
        lines.append(f"{named}: {_deviation(a[call], b[call], names)}")
    return _most("calls, the furthest apart first:", lines, len(a))


def _call_seconds(trace: Trace) -> NDArray[np.float64]:
    start_s = np.full(len(trace.calls), np.inf)
    end_s = np.full(len(trace.calls), -np.inf)
    np.minimum.at(start_s, trace.call, trace.start_s)
    np.maximum.at(end_s, trace.call, trace.end_s)
    seconds: NDArray[np.float64] = np.maximum(end_s - start_s, 0.0)  # no event: none
    return seconds


def _messages(both: tuple[Trace, Trace], names: tuple[str, str]) -> list[str]:
    """The time of each message from being handed over until the receiver had it. The k-th from one rank to another is
    compared with the k-th of the other trace; where the numbers differ (other lengths), all messages of the pair
    together."""
    a, b = (_MessagesByPair.of(trace) for trace in both)
    keys, in_a, in_b = np.intersect1d(a.keys, b.keys, return_indices=True)
    alike = a.counts[in_a] == b.counts[in_b]
    in_both = [np.isin(messages.pair, keys[alike]) for messages in (a, b)]
    pair = a.pair[in_both[0]]
    nth = np.arange(len(pair)) - np.searchsorted(pair, pair)
    times = tuple((messages.taken_s - messages.sent_s)[there] for messages, there in zip((a, b), in_both, strict=True))
    differences = []
    for at in _furthest(*times):
        source, target = divmod(int(pair[at]), both[0].ranks)
        differences.append(f"{source} to {target}, message {nth[at]}: {_deviation(times[0][at], times[1][at], names)}")
    lines = (
        _most("messages from handed over to taken, the furthest apart first:", differences, len(pair))
        if differences
        else []
    )
    wholes = a.whole_s()[in_a][~alike], b.whole_s()[in_b][~alike]
    differences = []
    for at in _furthest(*wholes):
        source, target = divmod(int(keys[~alike][at]), both[0].ranks)
        counts = f"{a.counts[in_a][~alike][at]} beside {b.counts[in_b][~alike][at]}"
        differences.append(
            f"{source} to {target}, {counts} messages: {_deviation(wholes[0][at], wholes[1][at], names)}"
        )
    if differences:
        lines += _most(
            "messages of other lengths, from the first handed over to the last taken:", differences, len(wholes[0])
        )
    return lines or ["no messages in both"]


class _MessagesByPair(NamedTuple):
    """Messages by pair of ranks and in the order of sending; a pair is one number, and `keys` has each pair once."""

    pair: NDArray[np.int64]
    sent_s: NDArray[np.float64]
    taken_s: NDArray[np.float64]
    keys: NDArray[np.int64]
    first: NDArray[np.intp]
    counts: NDArray[np.intp]

    @staticmethod
    def of(trace: Trace) -> _MessagesByPair:
        sent, taken = trace.messages()
        pair = trace.rank[sent].astype(np.int64) * trace.ranks + trace.peer[sent]
        order = np.lexsort((trace.start_s[sent], pair))
        pair, sent_s, taken_s = pair[order], trace.start_s[sent[order]], trace.end_s[taken[order]]
        return _MessagesByPair(pair, sent_s, taken_s, *np.unique(pair, return_index=True, return_counts=True))

    def whole_s(self) -> NDArray[np.float64]:
        """Seconds of each pair from handing over its first message until the last one is taken."""
        last_s = np.maximum.reduceat(self.taken_s, self.first) if len(self.first) else self.taken_s
        whole_s: NDArray[np.float64] = last_s - self.sent_s[self.first]
        return whole_s


def _furthest(a: NDArray[np.float64], b: NDArray[np.float64]) -> list[int]:
    """The positions at which `a` and `b` differ most, the MOST_DEVIATIONS first ones."""
    found: list[int] = np.argsort(-np.abs(a - b), kind="stable")[:MOST_DEVIATIONS].tolist()
    return found


def _deviation(a: float, b: float, names: tuple[str, str]) -> str:
    if np.isclose(a, b, rtol=1e-6, atol=0.0):
        return f"{duration(a)} in both"
    return f"{names[0]} {duration(a)}, {names[1]} {duration(b)} ({'+' if b > a else ''}{duration(b - a)})"


def _most(head: str, lines: Sequence[str], all_there_are: int) -> list[str]:
    """The head and the first few lines."""
    left = all_there_are - MOST_DEVIATIONS
    return [head, *(f"  {line}" for line in lines[:MOST_DEVIATIONS])] + ([f"  … and {left} more"] if left > 0 else [])
