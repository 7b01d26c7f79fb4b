"""The lower bound of any algorithm's time among ranks that share memory: the bytes that a rank must read from
others."""

from __future__ import annotations

from functools import lru_cache

from ringtree.ir.collective import collective as find_collective
from ringtree.price.memory.parameters import SharedMemory


def bound_s(collective: str, ranks: int, nbytes: int, memory: SharedMemory) -> float:
    """The least seconds of a call on a whole vector of `nbytes`: the call itself and, over several ranks, one message;
    or the bytes that must be read from peers, in slots or in their own memory, at the better rate. Ranks that share a
    core take turns."""
    cost = memory.parameters
    if ranks < 2:
        return cost.call_s
    share = max(ranks / memory.cores, 1.0)
    total, busiest, arrays = least_fetched(collective, ranks)
    _, fetch_s, _, attach_s = cost.seconds_a_byte(nbytes * arrays * share, share > 1)
    read_s = min(fetch_s, attach_s) if memory.single_copy_bytes else fetch_s
    meeting_s = cost.turn_s * share if ranks > memory.cores else cost.latency_s
    return max(cost.call_s * share + meeting_s, max(busiest, total / min(ranks, memory.cores)) * nbytes * read_s)


@lru_cache(maxsize=256)
def least_fetched(collective: str, ranks: int) -> tuple[float, float, float]:
    """(bytes read by all ranks, by the rank that must read most, bytes of a rank's arrays), in whole vectors. A rank
    that reduces reads every contribution but its own; every other rank that must have the result reads it."""
    promise = find_collective(collective)
    if promise.repeats or ranks < 2:
        return 0.0, 0.0, 0.0
    postcondition = [promise.postcondition(rank, ranks, ranks) for rank in range(ranks)]
    precondition = [promise.precondition(rank, ranks, ranks) for rank in range(ranks)]
    arrays = max(len(mine) + len(wanted) for mine, wanted in zip(precondition, postcondition, strict=True)) / ranks
    if promise.reduces and not promise.prefix:
        distinct = len(set().union(*postcondition))
        total = (ranks - 1) * distinct + sum(map(len, postcondition)) - distinct
        return total / ranks, max(*map(len, postcondition), total / ranks) / ranks, arrays
    if promise.prefix:
        each = [
            len(wanted) if set(promise.contributors(r, ranks)) - {r} else 0 for r, wanted in enumerate(postcondition)
        ]
    elif promise.transposes:
        each = [len(set(wanted) - {r}) for r, wanted in enumerate(postcondition)]
    else:
        each = [len(set(wanted) - set(mine)) for mine, wanted in zip(precondition, postcondition, strict=True)]
    return sum(each) / ranks, max(each) / ranks, arrays
