"""The cut of a schedule, as data: every rank of a call applies the one that one of them has chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from ringtree import transform, verify
from ringtree.algorithms import build, find
from ringtree.ir.schedule import Schedule


@dataclass(frozen=True, slots=True)
class CallTuning:
    """The transforms of an algorithm's schedule, in this order. `single_copy`: its messages are not staged,
    receivers read them in the senders' memory. `slots`: the staging slots that its programs need; 0 where nothing is
    done, and the algorithm's own number holds. `balanced`: sums are joined two at a time, in a balanced tree."""

    options: tuple[tuple[str, int | str], ...] = ()
    many_source: bool = False
    split: int = 0
    pipeline: int = 1
    channels: int = 1
    single_copy: bool = False
    balanced: bool = False
    slots: int = field(default=0, compare=False)

    @property
    def pieces(self) -> int:
        """The algorithm's own option `pieces`; 1 where it is not given."""
        return int(dict(self.options).get("pieces", 1))

    def apply(self, algorithm: str, collective: str, ranks: int, root: int | None = None) -> Schedule:
        """The algorithm's schedule with these steps done; a user's own is proved before."""
        prove_own(algorithm, collective, ranks, root)
        schedule = build(algorithm, collective, ranks, root, **dict(self.options))
        if self.balanced:
            schedule = transform.balance(schedule)
        if self.many_source:
            schedule = transform.many_source(schedule)
        if self.split:
            schedule = transform.split(schedule, self.split)
        return transform.channels(transform.pipeline(schedule, self.pipeline), self.channels)

    def __bool__(self) -> bool:
        return self != CallTuning()

    def __str__(self) -> str:
        return ", ".join(self._words()) or "not cut"

    def _words(self) -> Iterator[str]:
        yield from (f"{name}={value}" for name, value in self.options)
        if self.balanced:
            yield "balanced"
        if self.many_source:
            yield "many_source"
        if self.split:
            yield f"split({self.split})"
        if self.single_copy:
            yield "single_copy"
        yield from (f"{name}({k})" for name, k in (("pipeline", self.pipeline), ("channels", self.channels)) if k > 1)


@lru_cache(maxsize=1024)
def prove_own(algorithm: str, collective: str, ranks: int, root: int | None = None) -> None:
    """Proves a user's own algorithm before it runs, once; tests prove the published ones. ProofError, with rank, chunk
    and reason: if the proof fails."""
    if find(algorithm).origin:
        verify.prove(build(algorithm, collective, ranks, root))
