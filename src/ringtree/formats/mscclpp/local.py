"""The order of one gpu's thread blocks: semaphores and barriers.

A semaphore counts: the k-th acquire passes when k releases are there, besides those that it had at first. Where one
thread block acquires and the releases that must be there are certain, that is an order of steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ringtree.formats.mscclpp.gpu import Gpu, Op
from ringtree.formats.mscclpp.packets import StepAt
from ringtree.formats.steps import Step

Steps = Sequence[Sequence[Step]]


class Semaphores:
    """The semaphores of a gpu, and the steps that acquire and release them."""

    def __init__(self, gpu: Gpu) -> None:
        plan = gpu.plan
        self.gpu = gpu
        self.first = [
            plan.number(plan.get(s, dict, "semaphore"), "init_value")
            for s in plan.get(gpu.gpu.get("semaphores", []), list, "semaphores")
        ]
        self.acquired: list[list[tuple[Op, StepAt]]] = [[] for _ in self.first]
        self.released: list[list[tuple[Op, StepAt]]] = [[] for _ in self.first]

    def add(self, op: Op, at: StepAt) -> None:
        """A step that acquires or releases."""
        sides = self.acquired if op.name == "sem_acquire" else self.released
        for number in self.gpu.plan.item(op.fields, "semaphore_ids", list):
            if not isinstance(number, int) or not 0 <= number < len(self.first):
                raise self.gpu.refuse(op, f"names semaphore {number!r}; expected one of the gpu's {len(self.first)}")
            sides[number].append((op, at))
            self.gpu.plan.count(1)

    def connect(self, steps: Steps) -> None:
        """Makes each acquire wait for the releases that must have been. FormatError: where they are too few, or which
        ones is left to chance."""
        for number, first in enumerate(self.first):
            acquired, released = self.acquired[number], self.released[number]
            total = Counter(at[1] for _, at in released)
            by_thread = {t: [at[1:] for _, at in released if at[1] == t] for t in total}
            if len({at[1] for _, at in acquired}) > 1:
                raise self.gpu.refuse(
                    acquired[-1][0], f"semaphore {number} is acquired by two thread blocks; expected one"
                )
            for k, (op, at) in enumerate(acquired):
                self.gpu.plan.count(len(total))
                needed = k + 1 - first
                if needed > len(released):
                    problem = (
                        f"deadlock: acquires semaphore {number} {k + 1} times, of {first} and {len(released)} releases"
                    )
                    raise self.gpu.refuse(op, problem)
                certain = {t: needed - (len(released) - many) for t, many in total.items()}
                if 0 < needed != sum(max(many, 0) for many in certain.values()):
                    raise self.gpu.refuse(op, f"which releases of semaphore {number} it waits for is left to chance")
                steps[at[1]][at[2]].before += [by_thread[t][many - 1] for t, many in certain.items() if many > 0]


class Barriers:
    """The barriers of a gpu: each one's k-th use by all of its thread blocks is one barrier."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.uses: dict[int, dict[int, list[tuple[Op, StepAt]]]] = {}  # barrier -> thread block -> uses

    def add(self, op: Op, at: StepAt) -> None:
        """A step of a thread block at a barrier."""
        number = self.gpu.plan.number(op.fields, "barrier_id")
        self.uses.setdefault(number, {}).setdefault(op.block, []).append((op, at))

    def connect(self, steps: Steps) -> None:
        """Makes each thread block wait for what the others did before. FormatError: where one of them is missing."""
        plan = self.gpu.plan
        for number, blocks in self.uses.items():
            many = {len(uses) for uses in blocks.values()}
            for uses in blocks.values():
                for k, (op, at) in enumerate(uses):
                    if plan.number(op.fields, "num_threadblocks") != len(blocks) or len(many) > 1:
                        expected = f"expected {op.fields['num_threadblocks']}, and each as often"
                        problem = f"deadlock: {len(blocks)} thread blocks come to barrier {number}"
                        raise self.gpu.refuse(op, f"{problem}, {min(many)} to {max(many)} times; {expected}")
                    others = [other[k][1] for b, other in blocks.items() if b != op.block]
                    plan.count(len(others))
                    steps[at[1]][at[2]].before += [(t, s - 1) for _, t, s in others if s]
