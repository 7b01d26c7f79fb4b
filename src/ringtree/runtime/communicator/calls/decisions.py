"""Which algorithm a call takes and how it is cut: computed by one rank of the host, and read by the others.

Every rank would decide alike, and each decision costs milliseconds at the first call of a kind. Where ranks share
cores, each that decides for itself keeps the others waiting.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from ringtree.algorithms import serving
from ringtree.plan import CallTuning, choose, steps_for
from ringtree.price.memory import SharedMemory
from ringtree.runtime.engines.protocols import Memo

KEPT = 1024
WAIT_S = 0.1
"""How long a rank waits for another rank to decide before it decides for itself: that rank may have been stopped."""
POLL_S = 5e-4


@dataclass(frozen=True, slots=True)
class Decision:
    """An algorithm, how it is cut for the size, and in words why."""

    algorithm: str
    steps: CallTuning
    why: str


_decided: dict[str, Decision] = {}
"""By this process, in whatever group; the last KEPT."""


def decide(
    memo: Memo, collective: str, ranks: int, root: int, nbytes: int, memory: SharedMemory, rank_order: bool = False
) -> Decision:
    """For a whole vector of `nbytes` in a group of so many ranks (root -1: none). `rank_order` as in plan.choose."""
    at = root if root >= 0 else None

    def make() -> Decision:
        choice = choose(collective, ranks, nbytes, rank_order, memory)
        return Decision(
            choice.algorithm, steps_for(choice.algorithm, collective, ranks, at, nbytes, memory), choice.why
        )

    named = f"one of {serving(collective)}" + " in rank order" * rank_order
    return _once(memo, _question(named, collective, ranks, root, nbytes, memory), make)


def cut(
    memo: Memo, algorithm: str, collective: str, ranks: int, root: int, nbytes: int, memory: SharedMemory
) -> Decision:
    """The same for an algorithm that the caller names."""
    at = root if root >= 0 else None

    def make() -> Decision:
        return Decision(algorithm, steps_for(algorithm, collective, ranks, at, nbytes, memory), "")

    return _once(memo, _question(algorithm, collective, ranks, root, nbytes, memory), make)


def _question(algorithm: str, collective: str, ranks: int, root: int, nbytes: int, memory: SharedMemory) -> str:
    """All that the decision follows from; sizes up to the next power of two are of one kind."""
    return repr((algorithm, collective, ranks, root, (nbytes - 1).bit_length() if nbytes else -1, memory))


def _once(memo: Memo, question: str, make: Callable[[], Decision]) -> Decision:
    found = _decided.get(question)
    if found is None:
        found = _shared(memo, int.from_bytes(hashlib.sha256(question.encode()).digest()[:8], "little") or 1, make)
        while len(_decided) >= KEPT:
            _decided.pop(next(iter(_decided)), None)
        _decided[question] = found
    return found


def _shared(memo: Memo, key: int, make: Callable[[], Decision]) -> Decision:
    until_s = time.monotonic() + WAIT_S
    while (known := memo.known(key)) is False and time.monotonic() < until_s:
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
            memo.publish(key, value)


def _decoded(value: bytes) -> Decision:
    said = json.loads(value)
    options = tuple((name, number) for name, number in said["steps"].pop("options"))
    return Decision(said["algorithm"], CallTuning(options, **said["steps"]), said["why"])
