"""Ring orders: the best order of a few ranks, a good order of many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ringtree.search.routes import Routes

FEW = 8
"""Most positions that are searched exactly."""
MOST_STARTS = 8
MOST_TRIED = 4000
"""Most exchanges that are tried; each costs the load of one ring."""
RingOrder = tuple[int, ...]
NEGLIGIBLE = 1 + 1e-9


def ring_order(routes: Routes, before: Sequence[int] | None = None) -> RingOrder:
    """Returns the ring order of least `cost`, from position 0; the positions' own order where no other is better."""
    plain = tuple(range(routes.count))
    if before is not None and not any(before):
        before = None
    if routes.count <= 2 or (before is None and _cannot_be_better(routes, plain)):
        return plain
    if routes.count <= FEW:
        return _exact(routes, before)
    starts = (plain, *(_nearest(routes, start) for start in range(min(routes.count, MOST_STARTS))))
    tried = [_improved(routes, order, before) for order in starts[: 1 + MOST_STARTS]]
    best = min(tried, key=lambda order: routes.cost(order, before))
    return plain if not _better(routes.cost(best, before), routes.cost(plain, before)) else turned(best)


def turned(order: RingOrder) -> RingOrder:
    """Returns the ring, starting from position 0."""
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


def _cannot_be_better(routes: Routes, order: RingOrder) -> bool:
    """Returns whether every hop of the ring is as fast as the fastest hop."""
    hops = zip(order, (*order[1:], order[0]), strict=True)
    best = min(routes.hop_s(a, b) for a in range(routes.count) for b in range(routes.count) if a != b)
    slowest = max(routes.hop_s(a, b) for a, b in hops)
    return slowest <= best and routes.cost(order)[0] <= best[0] * NEGLIGIBLE


def _exact(routes: Routes, before: Sequence[int] | None) -> RingOrder:
    """All paths round but those whose busiest link is already worse than the best path's."""
    best = tuple(range(routes.count))
    best_cost = routes.cost(best, before)
    loads, order = list(before or [0] * routes.links()), [0]
    byte_s, paths = routes.byte_s, routes.paths

    def on(busiest_s: float) -> None:
        nonlocal best, best_cost
        if len(order) == routes.count:
            cost = routes.cost(order, before)
            if _better(cost, best_cost):
                best, best_cost = tuple(order), cost
            return
        for to in range(1, routes.count):
            if to in order:
                continue
            path = paths[order[-1]][to]
            for link in path:
                loads[link] += 1
            now = max(busiest_s, *(loads[link] * byte_s[link] for link in path))
            if now <= best_cost[0] * NEGLIGIBLE:
                order.append(to)
                on(now)
                order.pop()
            for link in path:
                loads[link] -= 1

    on(0.0)
    return best


def _nearest(routes: Routes, start: int) -> RingOrder:
    """Returns the order that always continues with the nearest remaining position."""
    order, left = [start], [p for p in range(routes.count) if p != start]
    while left:
        order.append(min(left, key=lambda p: (routes.hop_s(order[-1], p), p)))
        left.remove(order[-1])
    return tuple(order)


def _improved(routes: Routes, order: RingOrder, before: Sequence[int] | None) -> RingOrder:
    """Returns the order after exchanges that reduce its cost: a section reversed, or a position moved."""
    cost, tried = routes.cost(order, before), 0
    helped = True
    while helped and tried < MOST_TRIED:
        helped = False
        for other in _neighbours(order):
            tried += 1
            if _better(found := routes.cost(other, before), cost):
                order, cost, helped = other, found, True
                break
            if tried >= MOST_TRIED:
                break
    return order


def _neighbours(order: RingOrder) -> Iterator[RingOrder]:
    """Yields the orders that one exchange makes: every section reversed, then every position moved."""
    count = len(order)
    for i in range(1, count - 1):
        for j in range(i + 1, count):
            yield order[:i] + order[i : j + 1][::-1] + order[j + 1 :]
    for i in range(1, count):
        rest = order[:i] + order[i + 1 :]
        for j in range(1, count):
            if j != i:
                yield rest[:j] + (order[i],) + rest[j:]
