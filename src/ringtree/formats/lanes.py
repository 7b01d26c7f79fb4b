"""Intervals that overlap, spread over lanes in which none do, as viewers of timelines require of a thread's slices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def lanes(track: Ints, start: Ints, end: Ints) -> Ints:
    """The lane 0, 1, … of each interval among those of its track, as few as possible. An interval without length is in
    lane 0. O(n log n)."""
    lane = np.zeros(len(start), dtype=np.int64)
    long = np.flatnonzero(end > start)
    if len(long):
        long = long[np.lexsort((start[long], track[long]))]
        lane[long] = _lanes(track[long], start[long], end[long])
    return lane


def _lanes(track: Ints, start: Ints, end: Ints) -> Ints:
    """As `lanes`, of intervals in order of track and start. An interval opens a lane where none of its track is free;
    else it takes the one that has been free for longest, so that the m-th to take one follows the m-th to end."""
    n = len(track)
    nth = np.arange(n)
    by_end = np.lexsort((end, track))
    # In the merged order of all ends and starts, intervals whose ends come before a start have ended by then, and so
    # have all intervals of earlier tracks.
    merged = np.lexsort((np.repeat([0, 1], n), np.concatenate([end, start]), np.concatenate([track, track])))
    is_start = merged >= n
    ended = np.cumsum(~is_start)[is_start]  # intervals are in the order of their starts
    number = np.cumsum(np.diff(track, prepend=track[0]) != 0) * (n + 1)  # keeps the maximum within a track
    opened = np.maximum.accumulate(nth - ended + 1 + number) - number
    fresh = (np.diff(opened, prepend=0) > 0) | (np.diff(track, prepend=track[0] - 1) != 0)
    follows = np.where(fresh, nth, by_end[nth - opened])
    while np.any(follows != follows[follows]):
        follows = follows[follows]
    lane: Ints = opened[follows] - 1
    return lane
