"""The programs of an execution plan, and the schedule that they are raised into."""

from __future__ import annotations

from pathlib import Path

from ringtree.files.json_values import json_value
from ringtree.formats.execution import NAMES, check_size, execute
from ringtree.formats.imported import FormatError, Imported
from ringtree.formats.mscclpp.gpu import Gpu, Op
from ringtree.formats.mscclpp.packets import Packets, StepAt
from ringtree.formats.mscclpp.plan import COLLECTIVES, Plan
from ringtree.formats.mscclpp.threads import GpuThreads
from ringtree.formats.raising import raise_schedule
from ringtree.formats.settle import settle
from ringtree.formats.steps import Step, link
from ringtree.ir.program import Instruction, Operand, Program
from ringtree.ir.schedule import Transfers
from ringtree.ir.spec import check, describe

SHOWN_TRANSFERS = 4


def from_bytes(path: Path, data: bytes) -> Imported:
    """The plan's schedule and programs. FormatError, in one line: if it is no plan, a broken one, or not of a
    collective."""
    try:
        value = json_value(data, str(path), "an execution plan", unique=True)
    except ValueError as error:
        raise FormatError(str(error)) from None
    plan = Plan(path, value)
    author = _Author(plan)
    programs = author.programs()
    check_size(programs, plan.memory, path)
    execution = execute(programs, plan.memory, author.where, _name)
    schedule = raise_schedule(programs, plan.memory, execution, plan.name)
    if plan.collective not in COLLECTIVES:
        expected = f"collective {plan.collective[:20]!r}; expected one of {', '.join(COLLECTIVES)}"
        raise FormatError(f"{path}: {expected}. Its {schedule.ranks} gpus move {_in_words(schedule.expand())}")
    check(schedule)
    return Imported(schedule, settle(programs, plan.memory, execution), plan.facts)


def _in_words(rows: Transfers) -> str:
    """The first transfers, and how many more there are."""
    shown = [describe(rows, k) for k in range(min(len(rows), SHOWN_TRANSFERS))]
    more = f" and {len(rows) - len(shown)} more" if len(rows) > len(shown) else ""
    return ("; ".join(shown) or "nothing") + more


def _name(o: Operand) -> str:
    owner = "" if o.rank < 0 else f"gpu {o.rank}'s "
    return f"{owner}{NAMES[o.space]}[{o.index}]"


class _Author:
    """Writes the programs of all gpus. `ops`: by gpu and thread, the operation that each step comes from."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.gpus = [Gpu(plan, gpu) for gpu in plan.gpus]
        self.steps: list[list[list[Step]]] = []
        self.ops: list[list[list[Op]]] = []
        self.packets = Packets(self._where_step)
        self.instructions: list[list[list[Op]]] = []

    def programs(self) -> tuple[Program, ...]:
        plan, m = self.plan, self.plan.memory
        for gpu in self.gpus:
            writer = GpuThreads(gpu, self.packets)
            self.steps.append(writer.steps)
            self.ops.append(writer.ops)
            writer.write()
        self.packets.connect(self.steps)
        self.instructions = [
            [
                [op for step, op in zip(steps, ops, strict=True) for _ in step.code]
                for steps, ops in zip(*threads, strict=True)
            ]
            for threads in zip(self.steps, self.ops, strict=True)
        ]
        return tuple(
            Program(plan.name, m.collective, r, m.ranks, m.chunks, self._linked(r), None, plan.scratch[r], m.aliased)
            for r in range(m.ranks)
        )

    def _linked(self, rank: int) -> tuple[tuple[Instruction, ...], ...]:
        return link(self.steps[rank], lambda thread, step: self._where_step((rank, thread, step)))

    def where(self, rank: int, thread: int, instruction: int) -> str:
        return self.gpus[rank].where(self.instructions[rank][thread][instruction])

    def _where_step(self, at: StepAt) -> str:
        rank, thread, step = at
        return self.gpus[rank].where(self.ops[rank][thread][step])
