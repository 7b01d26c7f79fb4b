"""The program's own work in a trace, without its rank's other events at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.trace import Event, Trace

Seconds = NDArray[np.float64]


def uncovered(trace: Trace) -> tuple[Trace, NDArray[np.intp]]:
    """The trace with every COMPUTE cut to the pieces in which its rank had no other event but messages under way, and
    no COMPUTE that began later. And for each of its events the number of the given event that it is, or is a piece
    of."""
    own = np.flatnonzero((trace.kind == Event.COMPUTE) & (trace.end_s > trace.start_s))
    if not len(own):
        return trace, np.arange(len(trace))
    others = (trace.kind != Event.COMPUTE) & (trace.kind != Event.SEND) & (trace.end_s > trace.start_s)
    pieces: list[tuple[int, float, float]] = []
    for rank in np.unique(trace.rank[own]):
        busy = others & (trace.rank == rank)
        pieces += _pieces(trace, own[trace.rank[own] == rank], *_union(trace.start_s[busy], trace.end_s[busy]))
    rest = np.delete(np.arange(len(trace)), own)
    index = np.concatenate([rest, np.array([event for event, _, _ in pieces], np.intp)])
    cut = trace.take(index)
    start_s, end_s = cut.start_s.copy(), cut.end_s.copy()
    start_s[len(rest) :], end_s[len(rest) :] = ([piece[k] for piece in pieces] for k in (1, 2))
    return replace(cut, start_s=start_s, end_s=end_s), index


def _union(start_s: Seconds, end_s: Seconds) -> tuple[Seconds, Seconds]:
    """The intervals that they cover together, in order."""
    order = np.argsort(start_s, kind="stable")
    start_s, until_s = start_s[order], np.maximum.accumulate(end_s[order])
    first = np.ones(len(order), np.bool_)
    first[1:] = start_s[1:] > until_s[:-1]
    return start_s[first], until_s[np.append(np.flatnonzero(first)[1:] - 1, len(order) - 1)] if len(order) else until_s


def _pieces(
    trace: Trace, spans: NDArray[np.intp], busy_from_s: Seconds, busy_until_s: Seconds
) -> Iterator[tuple[int, float, float]]:
    """(event, from, to) of the parts of the spans that are not busy."""
    start_s, end_s = trace.start_s, trace.end_s
    moments = np.unique(np.concatenate([start_s[spans], end_s[spans], busy_from_s, busy_until_s]))
    at = np.searchsorted(busy_from_s, moments, "right") - 1
    is_busy = (at >= 0) & (moments < np.append(busy_until_s, -np.inf)[at])
    waiting = sorted(zip(start_s[spans].tolist(), end_s[spans].tolist(), spans.tolist(), strict=True), reverse=True)
    begun: list[tuple[float, float, int]] = []  # the one that began last first
    for moment, until, busy in zip(moments[:-1].tolist(), moments[1:].tolist(), is_busy.tolist(), strict=False):
        while waiting and waiting[-1][0] <= moment:
            start, end, event = waiting.pop()
            heappush(begun, (-start, end, event))
        while begun and begun[0][1] <= moment:
            heappop(begun)
        if begun and not busy:
            yield begun[0][2], moment, until
