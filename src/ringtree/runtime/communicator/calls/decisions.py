"""Which algorithm a call takes and how it is cut: computed by one rank of the host, and read by the others.

Every rank would decide alike, and each decision costs milliseconds at the first call of a kind. Where ranks share
cores, each that decides for itself keeps the others waiting.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from ringtree.algorithms import serving
from ringtree.plan import CallTuning, choose, steps_for
from ringtree.price.memory import SharedMemory
from ringtree.runtime.communicator.calls.binding import slots_needed_by
from ringtree.runtime.engines.protocols import Health, Memo

KEPT = 1024
WAIT_S = 5.0
"""How long a rank waits for another rank to decide before it decides for itself: that rank may have been stopped."""
POLL_S = 5e-4
CHECK_S = 0.05
"""How often a rank that waits checks whether the others live."""


class Endpoint(Memo, Health, Protocol):
    """What a decision needs of the group."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An algorithm, how it is cut for the size, and in words why."""

    algorithm: str
    steps: CallTuning
    why: str


_decided: dict[str, Decision] = {}
"""By this process, in whatever group; the last KEPT."""


def decide(
    endpoint: Endpoint,
    collective: str,
    ranks: int,
    root: int,
    nbytes: int,
    memory: SharedMemory,
    rank_order: bool = False,
) -> Decision:
    """For a whole vector of `nbytes` in a group of so many ranks (root -1: none). `rank_order` as in plan.choose."""
    at = root if root >= 0 else None

    def make() -> Decision:
        choice = choose(collective, ranks, nbytes, rank_order, memory)
        return Decision(
            choice.algorithm, steps_for(choice.algorithm, collective, ranks, at, nbytes, memory), choice.why
        )

    named = f"one of {serving(collective)}" + " in rank order" * rank_order
    return _once(endpoint, ranks, _question(named, collective, ranks, root, nbytes, memory), make)


def cut(
    endpoint: Endpoint, algorithm: str, collective: str, ranks: int, root: int, nbytes: int, memory: SharedMemory
) -> Decision:
    """The same for an algorithm that the caller names; `steps.slots` is how many staging slots it needs, cut or not."""
    at = root if root >= 0 else None

    def make() -> Decision:
        steps = steps_for(algorithm, collective, ranks, at, nbytes, memory)
        needed = steps.slots or slots_needed_by(algorithm, collective, ranks, root)
        return Decision(algorithm, replace(steps, slots=needed), "")

    return _once(endpoint, ranks, _question(algorithm, collective, ranks, root, nbytes, memory), make)


def _question(algorithm: str, collective: str, ranks: int, root: int, nbytes: int, memory: SharedMemory) -> str:
    """All that the decision follows from; sizes up to the next power of two are of one kind."""
    return repr((algorithm, collective, ranks, root, (nbytes - 1).bit_length() if nbytes else -1, memory))


def _once(endpoint: Endpoint, ranks: int, question: str, make: Callable[[], Decision]) -> Decision:
    found = _decided.get(question)
    if found is None:
        found = _shared(
            endpoint, ranks, int.from_bytes(hashlib.sha256(question.encode()).digest()[:8], "little") or 1, make
        )
        while len(_decided) >= KEPT:
            _decided.pop(next(iter(_decided)), None)
        _decided[question] = found
    return found


def _shared(endpoint: Endpoint, ranks: int, key: int, make: Callable[[], Decision]) -> Decision:
    known = endpoint.known(key)
    if known is False:
        began_s = checked_s = time.monotonic()
        while (known := endpoint.known(key)) is False and (now_s := time.monotonic()) < began_s + WAIT_S:
            if now_s > checked_s + CHECK_S:
                endpoint.check_liveness("the choice of an algorithm", list(range(ranks)), [])
                checked_s = now_s
            time.sleep(POLL_S)
    if isinstance(known, bytes) and known:
        return _decoded(known)
    value = b""  # so that the others need not wait, should this rank fail
    try:
        decision = make()
        value = json.dumps(asdict(decision), separators=(",", ":")).encode()
        return decision
    finally:
        if known is True:
            endpoint.publish(key, value)


def _decoded(value: bytes) -> Decision:
    said = json.loads(value)
    options = tuple((name, number) for name, number in said["steps"].pop("options"))
    return Decision(said["algorithm"], CallTuning(options, **said["steps"]), said["why"])
