"""Packets: pieces of scratch that carry a flag, so that whoever reads one waits until it was written in this call.

A reader needs no semaphore, but in our terms one is what it waits for: each pair of a step that writes packets and a
step that reads some of them has a lane of its own, with one bare signal, or, within a gpu, is an order of two steps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from ringtree.formats.imported import FormatError
from ringtree.formats.steps import Step
from ringtree.ir.program import Instruction, Kind, Operand

FIRST_LANE = 1 << 21
"""The first lane for packets, beyond the numbers of all channels."""
MOST_PAIRS = 2**17
"""The most pairs of a step that writes packets and a step that reads some of them."""

StepAt = tuple[int, int, int]
"""(gpu, thread, step)."""


class _Written(NamedTuple):
    first: int
    stop: int
    by: StepAt


@dataclass(slots=True)
class Packets:
    """The packets that a plan's steps write and read, as far as they were added. `where`: names a step."""

    where: Callable[[StepAt], str]
    written: dict[int, list[_Written]] = field(default_factory=dict)  # by gpu whose scratch it is
    read: list[tuple[StepAt, Operand]] = field(default_factory=list)
    scratch: dict[int, dict[bool, str]] = field(default_factory=dict)  # by gpu, whether for packets: its first use

    def check_scratch(self, owner: int, flagged: bool, where: str) -> None:
        """Refuses scratch of a gpu that is used for packets, which take twice their room, and without flags too."""
        uses = self.scratch.setdefault(owner, {})
        uses.setdefault(flagged, where)
        if len(uses) > 1:
            other = uses[not flagged].split(": ", 1)[-1]
            words = ("without flags", "as packets")
            raise FormatError(
                f"{where}: uses scratch of gpu {owner} {words[flagged]}, {other} {words[not flagged]}; expected one"
            )

    def write(self, by: StepAt, targets: Iterable[Operand]) -> None:
        """Adds packets that a step writes."""
        for o in targets:
            owner = by[0] if o.rank < 0 else o.rank
            self.written.setdefault(owner, []).append(_Written(o.index, o.index + o.count, by))

    def wait(self, by: StepAt, sources: Iterable[Operand]) -> None:
        """Adds packets of its own gpu that a step reads."""
        self.read += [(by, o) for o in sources]

    def connect(self, steps: Sequence[Sequence[Sequence[Step]]]) -> None:
        """Makes each reader wait for its writers; `steps` by gpu and thread. FormatError: for a packet that nobody
        writes, or two do."""
        for owner, spans in self.written.items():
            spans.sort()
            for a, b in pairwise(spans):
                if b.first < a.stop:
                    problem = (
                        f"writes packet s[{b.first}] of gpu {owner}, as {self.where(a.by).split(': ', 1)[-1]} does"
                    )
                    raise FormatError(f"{self.where(b.by)}: {problem}; a reader could not tell them apart")
        pairs = 0
        for reader, o in self.read:
            for writer in self._writers(reader, o):
                pairs += 1
                if pairs > MOST_PAIRS:
                    raise FormatError(f"{self.where(reader)}: more than {MOST_PAIRS} pairs of steps share packets")
                if writer[0] == reader[0]:
                    if writer[1] != reader[1] or writer[2] >= reader[2]:
                        steps[reader[0]][reader[1]][reader[2]].before.append(writer[1:])
                    continue
                lane = FIRST_LANE + pairs
                _at(steps, writer).code.append(Instruction(Kind.SIGNAL, peer=reader[0], channel=lane))
                _at(steps, reader).code.insert(0, Instruction(Kind.WAIT, peer=writer[0], channel=lane))

    def _writers(self, reader: StepAt, o: Operand) -> list[StepAt]:
        """The steps that write an operand's packets."""
        spans = self.written.get(reader[0], [])
        found: list[StepAt] = []
        at, stop = o.index, o.index + o.count
        while at < stop:
            k = bisect_right(spans, at, key=lambda span: span.first) - 1
            if k < 0 or spans[k].stop <= at:
                raise FormatError(f"{self.where(reader)}: deadlock: waits for packet s[{at}], which no step writes")
            found.append(spans[k].by)
            at = spans[k].stop
        return found


def _at(steps: Sequence[Sequence[Sequence[Step]]], at: StepAt) -> Step:
    return steps[at[0]][at[1]][at[2]]
