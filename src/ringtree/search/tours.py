"""Ways round all places: the best one of a few, a good one of many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ringtree.search.roads import Roads

FEW = 8
"""So many places are searched exactly."""
MOST_STARTS = 8
MOST_TRIED = 4000
"""Of exchanges; each costs a ring's load."""
Tour = tuple[int, ...]
NEGLIGIBLE = 1 + 1e-9


def tour(roads: Roads, before: Sequence[int] | None = None) -> Tour:
    """From place 0 round all and back, at the least `cost`; the places' own order where none is better."""
    plain = tuple(range(roads.count))
    if before is not None and not any(before):
        before = None
    if roads.count <= 2 or (before is None and _cannot_be_better(roads, plain)):
        return plain
    if roads.count <= FEW:
        return _exact(roads, before)
    starts = (plain, *(_nearest(roads, start) for start in range(min(roads.count, MOST_STARTS))))
    tried = [_improved(roads, order, before) for order in starts[: 1 + MOST_STARTS]]
    best = min(tried, key=lambda order: roads.cost(order, before))
    return plain if not _better(roads.cost(best, before), roads.cost(plain, before)) else turned(best)


def turned(order: Tour) -> Tour:
    """The same way round, told from place 0 on."""
    at = order.index(0)
    return order[at:] + order[:at]


def _better(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether one cost is less than another by more than rounding."""
    for a, b in zip(one, other, strict=True):
        if a * NEGLIGIBLE < b:
            return True
        if b * NEGLIGIBLE < a:
            return False
    return False


def _cannot_be_better(roads: Roads, order: Tour) -> bool:
    """Whether every hop is as good as the best there is."""
    hops = zip(order, (*order[1:], order[0]), strict=True)
    best = min(roads.hop_s(0, b) for b in range(1, roads.count))
    slowest = max(roads.hop_s(a, b) for a, b in hops)
    return slowest <= best and roads.cost(order)[0] <= best[0] * NEGLIGIBLE


def _exact(roads: Roads, before: Sequence[int] | None) -> Tour:
    """All ways round but those whose busiest link is already worse than the best way's."""
    best = tuple(range(roads.count))
    best_cost = roads.cost(best, before)
    loads, order = list(before or [0] * roads.links()), [0]
    byte_s, ways = roads.byte_s, roads.ways

    def on(busiest_s: float) -> None:
        nonlocal best, best_cost
        if len(order) == roads.count:
            cost = roads.cost(order, before)
            if _better(cost, best_cost):
                best, best_cost = tuple(order), cost
            return
        for to in range(1, roads.count):
            if to in order:
                continue
            way = ways[order[-1]][to]
            for link in way:
                loads[link] += 1
            now = max(busiest_s, *(loads[link] * byte_s[link] for link in way))
            if now <= best_cost[0] * NEGLIGIBLE:
                order.append(to)
                on(now)
                order.pop()
            for link in way:
                loads[link] -= 1

    on(0.0)
    return best


def _nearest(roads: Roads, start: int) -> Tour:
    """Always on to the nearest place that is left."""
    order, left = [start], [p for p in range(roads.count) if p != start]
    while left:
        order.append(min(left, key=lambda p: (roads.hop_s(order[-1], p), p)))
        left.remove(order[-1])
    return tuple(order)


def _improved(roads: Roads, order: Tour, before: Sequence[int] | None) -> Tour:
    """Exchanges while they help: a part of the way turned round, or a place put elsewhere."""
    cost, tried = roads.cost(order, before), 0
    helped = True
    while helped and tried < MOST_TRIED:
        helped = False
        for other in _neighbours(order):
            tried += 1
            if _better(found := roads.cost(other, before), cost):
                order, cost, helped = other, found, True
                break
            if tried >= MOST_TRIED:
                break
    return order


def _neighbours(order: Tour) -> Iterator[Tour]:
    count = len(order)
    for i in range(1, count - 1):
        for j in range(i + 1, count):
            yield order[:i] + order[i : j + 1][::-1] + order[j + 1 :]
    for i in range(1, count):
        rest = order[:i] + order[i + 1 :]
        for j in range(1, count):
            if j != i:
                yield rest[:j] + (order[i],) + rest[j:]
