"""Mismatched calls of one rank, and what each rank hears of them: a table, and the play of one of its rows.

python -m tests.runtime.faults.mismatches                   who hears when, on 2 to 5 ranks: the table in docs/faults.md
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ringtree import spawn
from ringtree.errors import Mismatch, PeerDied
from ringtree.runtime.communicator.communicator import Communicator


@dataclass(frozen=True)
class Made:
    """A collective call; `count` elements a rank."""

    collective: str
    count: int = 3
    dtype: str = "float32"
    root: int = 0
    op: str = "sum"
    algorithm: str | None = None

    def on(self, group: Communicator) -> None:
        n, rooted = group.size, {"root": self.root % group.size}
        x, chosen = np.ones(self.count * n, self.dtype), {"algorithm": self.algorithm}
        calls: dict[str, Any] = {
            "all_reduce": lambda: group.all_reduce(x, self.op, **chosen),
            "reduce_scatter": lambda: group.reduce_scatter(x, self.op, **chosen),
            "all_gather": lambda: group.all_gather(x[: self.count], **chosen),
            "broadcast": lambda: group.broadcast(x, **rooted, **chosen),
            "reduce": lambda: group.reduce(x, self.op, **rooted, **chosen),
            "gather": lambda: group.gather(x[: self.count], **rooted, **chosen),
            "scatter": lambda: group.scatter(
                x if group.rank == rooted["root"] else None, out=np.empty(self.count, self.dtype), **rooted, **chosen
            ),
            "barrier": group.barrier,
        }
        calls[self.collective]()


class Row(NamedTuple):
    """The calls of all ranks but the culprit, and the culprit's."""

    kind: str
    calls: tuple[Made, ...]
    culprits: tuple[Made, ...]

    def __str__(self) -> str:
        return f"{self.kind}, {self.calls[0].collective if self.calls else 'nothing'}"


ROOTED = [Made(name) for name in ("broadcast", "scatter", "gather", "reduce")]
ANY_OF = [*ROOTED, Made("all_reduce"), Made("all_gather"), Made("reduce_scatter")]


def rows(ranks: int) -> Iterator[Row]:
    """Of 2 ranks some algorithms are the same schedule, and are no mismatch."""
    for mine, its in (("broadcast", "reduce"), ("gather", "scatter"), ("scatter", "gather"), ("reduce", "broadcast")):
        yield Row("operation", (Made(mine),), (Made(its),))
    yield Row("operation", (Made("all_reduce"),), (Made("all_gather"),))
    for made in ANY_OF:
        yield Row("type", (made,), (replace(made, dtype="int32"),))
        yield Row("count", (made,), (replace(made, count=4),))
    for made in ROOTED:
        yield Row("root", (made,), (replace(made, root=1),))
    for name in ("reduce", "all_reduce", "reduce_scatter"):
        yield Row("reduction", (Made(name),), (Made(name, op="max"),))
    if ranks > 2:
        for name in ("broadcast", "reduce", "gather", "scatter"):
            yield Row("algorithm", (Made(name, algorithm="flat"),), (Made(name, algorithm="binomial"),))
        yield Row("algorithm", (Made("all_reduce", algorithm="ring"),), (Made("all_reduce", algorithm="two_shot"),))
    for made in (Made("broadcast"), Made("gather")):
        yield Row("order", (made, Made("all_reduce")), (Made("all_reduce"), made))
        yield Row("order", (made, Made("broadcast", root=1)), (Made("broadcast", root=1), made))
        yield Row("skipped", (made,), ())
        yield Row("extra", (), (made,))


class Heard(NamedTuple):
    """When a rank heard: in a call `before`, in the mismatched `call`, the `next` one, when it tried to `close`, or
    `never`."""

    when: str
    text: str


def play(world: Communicator, row: Row, culprit: int, ends: str, check: bool) -> Heard:
    """Makes a row's calls on a group of its own, and then the next call, unless it `ends` with close."""
    os.environ["RINGTREE_CHECK"] = str(int(check))
    group = world.duplicate()
    parts = [("before", Made("barrier"))]  # where ranks that are ahead may be heard of
    parts += [("call", made) for made in (row.culprits if world.rank == culprit else row.calls)]
    parts += [("next", Made("barrier"))] * (ends == "next")
    try:
        for when, made in parts:
            try:
                made.on(group)
            except (Mismatch, PeerDied) as error:
                return Heard(when, f"{type(error).__name__}: {error}")
    finally:
        try:
            group.close()
            found = Heard("never", "")
        except (Mismatch, PeerDied) as error:
            found = Heard("close", f"{type(error).__name__}: {error}")
        world.barrier()
    return found


def play_all(world: Communicator, check: bool) -> list[tuple[str, str, int, str, Heard]]:
    """This rank's (kind, collective, culprit, ends, what it heard) of every row."""
    heard = []
    for row in rows(world.size):
        for culprit in (0, world.size - 1):
            for ends in ("next", "close"):
                heard.append((row.kind, str(row), culprit, ends, play(world, row, culprit, ends, check)))
    return heard


def main() -> None:
    counts: dict[tuple[str, str, bool], Counter[str]] = {}
    for ranks in (2, 3, 4, 5):
        for check in (False, True):
            for heard in spawn(play_all, ranks, check, timeout_s=60):
                for kind, _, _, ends, (when, _) in heard:
                    counts.setdefault((kind, ends, check), Counter())[when] += 1
    for (kind, ends, check), by in counts.items():
        shown = ", ".join(f"{when} {by[when]}" for when in ("before", "call", "next", "close", "never") if by[when])
        print(f"{kind:10} then {'another call' if ends == 'next' else 'close':12} {'checked' * check:8} {shown}")


if __name__ == "__main__":
    main()
