"""Max-min fair rates: no flow can have more without one that has no more than it having less (Bertsekas and Gallager,
Data Networks, 1992, 6.5.2: progressive filling).

`most` is each flow's rate if it were alone. Every flow has a limit: a finite `most`, or a link.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

MANY = 48
"""Number of flows from which `many` is faster."""
SLACK = 1 + 1e-12


def few(crossed: Sequence[Sequence[int]], most: Sequence[float], bandwidth: Sequence[float]) -> list[float]:
    """Each flow's rate; `crossed`: the links it crosses, by their position in `bandwidth`. One level after the other:
    the lowest share of a link, or the lowest limit of a flow."""
    rates = list(most)
    room, left = list(bandwidth), [0] * len(bandwidth)
    for links in crossed:
        for link in links:
            left[link] += 1
    free = sorted(range(len(crossed)), key=most.__getitem__)
    while free:
        level = min((room[link] / n for link, n in enumerate(left) if n), default=inf)
        tight = {link for link, n in enumerate(left) if n and room[link] <= level * n * SLACK}
        if most[free[0]] <= level * SLACK:
            level, tight = most[free[0]], set()
        kept = []
        for flow in free:
            if most[flow] <= level * SLACK or not tight.isdisjoint(crossed[flow]):
                rates[flow] = min(level, most[flow])
                for link in crossed[flow]:
                    room[link] = max(room[link] - rates[flow], 0.0)
                    left[link] -= 1
            else:
                kept.append(flow)
        free = kept
    return rates


def many(
    flow: NDArray[np.intp], link: NDArray[np.intp], most: NDArray[np.float64], bandwidth: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Each flow's rate; flow[k] crosses link[k]. Many levels at once: a link is done when none of its flows is held
    lower elsewhere, a flow when it has its rate alone."""
    rates, room = most.copy(), bandwidth.copy()
    while len(flow):
        left = np.bincount(link, minlength=len(room))
        share = np.divide(room, left, out=np.full(len(room), inf), where=left > 0)
        least = most.copy()
        np.minimum.at(least, flow, share[link])
        held = np.zeros(len(room), np.bool_)  # some flow of it gets less than its share
        held[link[least[flow] * SLACK < share[link]]] = True
        done = np.zeros(len(most), np.bool_)
        done[flow[~held[link]]] = True
        done[flow[most[flow] <= least[flow] * SLACK]] = True
        rates[done] = least[done]
        gone = done[flow]
        room = np.maximum(room - np.bincount(link[gone], rates[flow[gone]], minlength=len(room)), 0.0)
        flow, link = flow[~gone], link[~gone]
    return rates
