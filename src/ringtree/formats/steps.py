"""Threads of steps, made threads of instructions: a file's steps that only wait are no instructions, and what comes
after them waits in their stead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from ringtree.formats.imported import FormatError
from ringtree.ir.program import Instruction

MOST_EFFORT = 2**20
"""Steps without instructions that are looked through for one rank: far more than any compiler writes."""


@dataclass(slots=True)
class Step:
    """`code`: the instructions, none where it only waits. `before`: (thread, step) of the same rank that must be done
    first, besides the steps above it."""

    code: list[Instruction] = field(default_factory=list)
    before: list[tuple[int, int]] = field(default_factory=list)


Threads = Sequence[Sequence[Step]]
"""The steps of one rank, thread by thread."""


def link(threads: Threads, where: Callable[[int, int], str]) -> tuple[tuple[Instruction, ...], ...]:
    """The threads' instructions, each `after` what its step waits for. `where`: names (thread, step) in the file's
    terms. FormatError: for steps that wait for each other in a circle, or for too many."""
    _check_order(threads, where)
    linker = _Linker(threads, where)
    return tuple(tuple(linker.code(thread)) for thread in threads)


class _Linker:
    def __init__(self, threads: Threads, where: Callable[[int, int], str]) -> None:
        self.threads, self.where = threads, where
        self.last = [[n - 1 for n in accumulate(len(s.code) for s in steps)] for steps in threads]
        self.effort = 0

    def code(self, steps: Sequence[Step]) -> list[Instruction]:
        found: list[Instruction] = []
        pending: list[tuple[int, int]] = []
        for step in steps:
            for before in step.before:
                pending += self._done(before)
            if step.code:
                first, *rest = step.code
                found += [first._replace(after=tuple(dict.fromkeys(pending))), *rest]
                pending.clear()
        return found

    def _done(self, step: tuple[int, int]) -> list[tuple[int, int]]:
        """The (thread, instruction) pairs that must finish before that step counts as done. A step without instructions
        is done when the steps that it waits for are, and the step above it."""
        found: list[tuple[int, int]] = []
        open_, seen = [step], {step}
        while open_:
            thread, number = open_.pop()
            if self.last[thread][number] >= 0:
                found.append((thread, self.last[thread][number]))
            if not self.threads[thread][number].code:
                above = [(thread, number - 1)] if number else []
                more = [b for b in (*self.threads[thread][number].before, *above) if b not in seen]
                seen.update(more)
                open_ += more
            self.effort += 1
            if self.effort > MOST_EFFORT:
                raise FormatError(f"{self.where(thread, number)}: waits for too many steps that only wait")
        return found


def _check_order(threads: Threads, where: Callable[[int, int], str]) -> None:
    """Refuses steps that wait for each other in a circle, which steps without instructions may hide."""
    waits: dict[tuple[int, int], int] = {}
    then: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for thread, steps in enumerate(threads):
        for number, step in enumerate(steps):
            before = [(thread, number - 1)] if number else []
            before += step.before
            waits[thread, number] = len(before)
            for b in before:
                then.setdefault(b, []).append((thread, number))
    ready = [s for s, count in waits.items() if not count]
    while ready:
        done = ready.pop()
        del waits[done]
        for s in then.get(done, ()):
            waits[s] -= 1
            if not waits[s]:
                ready.append(s)
    if waits:
        raise FormatError(f"{where(*min(waits))}: deadlock: waits for a step that waits for it")
