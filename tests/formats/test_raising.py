"""Raising keeps the meaning of any program: random ones do, as programs and as schedules, the same to the numbers."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ringtree.algorithms import REGISTRY
from ringtree.formats.execution import At, NamedMemory, execute
from ringtree.formats.raising import raise_schedule
from ringtree.formats.settle import settle
from ringtree.ir.lower import lower
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.ir.schedule import Schedule
from ringtree.ir.spec import check
from ringtree.ir.text import format_schedule, parse_schedule
from tests import oracle

SCRATCH = 2
Step = tuple[str, int, int, int, int, int, int]
"""(type, rank, peer, source space and index, target space and index, count): as far as they make sense."""


class Author:
    """Writes programs step by step in one order that is legal, and knows what is defined where."""

    def __init__(self, memory: NamedMemory) -> None:
        self.memory, self.n = memory, memory.ranks
        self.code: list[list[Instruction]] = [[] for _ in range(self.n)]
        self.lanes: dict[tuple[int, int], deque[int]] = {}
        self.defined = {cell for cell, _ in memory.given()}
        self.written: set[Any] = set()

    def operand(self, rank: int, space: int, index: int, count: int, *, write: bool) -> Operand | None:
        """A place that may be written, or is defined all through; None if there is none so."""
        spaces = [Space.OUTPUT, Space.SCRATCH, Space.INPUT]
        chosen = spaces[space % (3 if self.memory.aliased or not write else 2)]
        windows = {Space.INPUT: self.memory.precondition(rank), Space.OUTPUT: self.memory.postcondition(rank)}
        length = len(windows.get(chosen, range(SCRATCH)))
        if count > length:
            return None
        o = Operand(chosen, index % (length - count + 1), -1, count)
        return o if write or self.defined.issuperset(self.memory.cells(rank, o)) else None

    def write(self, rank: int, o: Operand) -> None:
        cells = self.memory.cells(rank, o)
        self.defined.update(cells)
        self.written.update(cells)

    def step(self, kind: str, rank: int, peer: int, source: int, target: int, index: int, count: int) -> None:
        rank, peer = rank % self.n, peer % self.n
        code, message = self.code[rank], None
        sender = (rank + 1 + source) % self.n
        receives, sends = "r" in kind and kind != "re", kind[-1] == "s"
        if receives:
            senders = [s for s in range(self.n) if self.lanes.get((s, rank))]
            if not senders:
                return
            sender = senders[source % len(senders)]
            count = self.lanes[sender, rank][0]
            message = Operand(Space.MESSAGE, 0, -1, count)
        peer = (rank + 1 + peer) % self.n if peer == rank else peer
        if sends and peer == rank:
            return
        src = self.operand(rank, source, index, count, write=False)
        dst = self.operand(rank, target, index // 3, count, write=True)
        reads, writes = kind not in ("r", "rcs"), kind not in ("s", "rrs")
        if (reads and src is None) or (writes and dst is None):
            return
        if kind == "re" and (dst is None or not self.defined.issuperset(self.memory.cells(rank, dst))):
            return
        if reads and writes and src and dst:
            a, b = self.memory.cells(rank, src), self.memory.cells(rank, dst)
            if not set(a).isdisjoint(b) and (a != b or not receives):
                return
        sources = [*([dst] if kind == "re" else []), *([src] if reads else []), *([message] if message else [])]
        targets = [*([dst] if writes else []), *([Operand(Space.SLOT, 0, -1, count)] if sends else [])]
        if receives:
            self.lanes[sender, rank].popleft()
            code.append(Instruction(Kind.WAIT, peer=sender, register=0))
        kinds = Kind.COPY if len(sources) == 1 else Kind.REDUCE
        code.append(Instruction(kinds, tuple(o for o in targets if o), tuple(o for o in sources if o)))
        if sends:
            self.lanes.setdefault((rank, peer), deque()).append(count)
            code.append(Instruction(Kind.SIGNAL, peer=peer, register=0))
        if receives:
            code.append(Instruction(Kind.RELEASE, peer=sender))
        if writes and dst:
            self.write(rank, dst)

    def programs(self) -> tuple[Program, ...]:
        while open_ := [lane for lane, held in self.lanes.items() if held]:
            for _, rank in open_:
                self.step("r", rank, 0, 0, 1, 0, 1)  # into scratch
        m = self.memory
        return tuple(
            Program("random", m.collective, r, m.ranks, m.chunks, (tuple(c),), None, SCRATCH, m.aliased)
            for r, c in enumerate(self.code)
        )


def run(programs: Sequence[Program], order: Sequence[At], memory: NamedMemory, given: list[Any]) -> dict[Any, Any]:
    """The content of every cell after the instructions ran in that order."""
    holds = {cell: given[cell[0]][label - memory.precondition(cell[0]).start] for cell, label in memory.given()}
    registers: dict[Any, Any] = {}
    lanes: dict[Any, deque[Any]] = {}
    for rank, thread, step in order:
        i = programs[rank].threads[thread][step]
        if i.kind is Kind.WAIT:
            registers[rank, thread, Space.MESSAGE] = lanes[i.peer, rank].popleft()
        elif i.kind is Kind.SIGNAL:
            lanes.setdefault((rank, i.peer), deque()).append(registers[rank, thread, Space.SLOT])
        elif i.kind is not Kind.RELEASE:
            values = [
                [holds[c] for c in memory.cells(rank, o)] if o.space < Space.SLOT else registers[rank, thread, o.space]
                for o in i.sources
            ]
            total = [sum(v[1:], v[0]) for v in zip(*values, strict=True)]
            for o in i.targets:
                if o.space is Space.SLOT:
                    registers[rank, thread, Space.SLOT] = total
                else:
                    holds.update(zip(memory.cells(rank, o), total, strict=True))
    return holds


CASES = [
    ("all_reduce", True),
    ("all_reduce", False),
    ("all_gather", True),
    ("reduce_scatter", True),
    ("all_to_all", False),
]

steps = st.tuples(
    st.sampled_from(["s", "s", "s", "r", "rcs", "rrc", "rrs", "rrs", "rrcs", "cpy", "re"]),
    *(st.integers(0, k) for k in (3, 3, 5, 5, 11)),
    st.integers(1, 2),
)


@given(st.sampled_from(CASES), st.integers(2, 4), st.lists(steps, min_size=30, max_size=60))
def test_random_programs_mean_the_same(case: tuple[str, bool], n: int, script: list[Step]) -> None:
    """The file's own terms, the schedule and the settled programs agree on everything the programs wrote."""
    memory = NamedMemory(case[0], n, 2 * n, aliased=case[1])
    author = Author(memory)
    for step in script:
        author.step(*step)
    programs = author.programs()

    def where(rank: int, thread: int, step: int) -> str:
        return f"rank {rank} step {step}"

    execution = execute(programs, memory, where, str)
    schedule = raise_schedule(programs, memory, execution, "random")
    check(schedule)
    given_ = oracle.inputs(schedule)
    with np.errstate(over="ignore"):
        want = run(programs, execution.order, memory, given_)
        got = oracle.replay(schedule)
        settled = settle(programs, memory, execution)
        added = [(p.rank, t, s) for p in settled for t, code in enumerate(p.threads) if t for s in range(len(code))]
        first, last = (
            [at for at in added if bool(settled[at[0]].threads[at[1]][0].after) == end] for end in (False, True)
        )
        apart = NamedMemory(case[0], n, 2 * n, aliased=False)
        outputs = run(settled, [*first, *execution.order, *last], apart, given_)
    for rank in range(n):
        for k, cell in enumerate(memory.cells(rank, Operand(Space.OUTPUT, 0, -1, len(memory.postcondition(rank))))):
            if cell in author.written:
                assert got[rank][k] == want[cell]
            if cell in author.defined:
                assert outputs[apart.cells(rank, Operand(Space.OUTPUT, k, -1))[0]] == want[cell]
    assert parse_schedule(format_schedule(schedule)) == schedule


def raised(schedule: Schedule) -> Schedule:
    """A schedule lowered and raised again."""
    programs = lower(schedule)
    memory = NamedMemory(schedule.collective, schedule.ranks, schedule.chunks, aliased=False)
    return raise_schedule(programs, memory, execute(programs, memory, lambda r, t, s: f"{r}.{s}", str), schedule.name)


def test_lowering_is_undone():
    """A pairwise exchange comes back as it was; what is raised from a ring in two buffers sends as much."""
    for n in (1, 2, 5, 8):
        pairwise = REGISTRY["pairwise"].build("all_to_all", n)
        assert raised(pairwise).transfers == pairwise.transfers
        for name, collective in (
            ("ring", "all_reduce"),
            ("two_shot", "all_reduce"),
            ("halving_doubling", "all_gather"),
        ):
            schedule = REGISTRY[name].build(collective, n)
            again = raised(schedule)
            assert oracle.wrong(again) is None
            assert np.array_equal(again.chunks_sent(), schedule.chunks_sent())


def test_additions_keep_their_order():
    """Two into one chunk in one round come in the order in which the program added them, not in that of ranks."""
    slot, message, home = (Operand(space, 0, -1) for space in (Space.SLOT, Space.MESSAGE, Space.OUTPUT))
    send = [Instruction(Kind.COPY, (slot,), (home,)), Instruction(Kind.SIGNAL, peer=0, register=0)]
    receive = [
        i
        for peer in (2, 1)
        for i in (
            Instruction(Kind.WAIT, peer=peer, register=0),
            Instruction(Kind.REDUCE, (home,), (home, message)),
            Instruction(Kind.RELEASE, peer=peer),
        )
    ]
    memory = NamedMemory("all_reduce", 3, 1, aliased=True)
    codes = enumerate((receive, send, send))
    programs = [Program("test", "all_reduce", r, 3, 1, (tuple(code),)) for r, code in codes]
    execution = execute(programs, memory, lambda r, t, s: "", str)
    rows = raise_schedule(programs, memory, execution, "test").expand()
    assert rows.source.tolist() == [2, 1]
    assert rows.round.tolist() == [0, 0]
