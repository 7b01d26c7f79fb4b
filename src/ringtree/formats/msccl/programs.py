"""The programs of an MSCCL file, and the schedule that they are raised into.

A thread block is one sequential thread with at most one peer to send to and one to receive from; (peer, channel) names
the lane. Steps name chunks of the buffers i, o and s; where the file has `inplace`, input and output are one memory:
all_reduce i[k] = o[k], all_gather i[k] = o[gpu's block + k], reduce_scatter o[k] = i[gpu's block + k].
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ringtree.formats.execution import NAMES, SPACES, NamedMemory, check_size, execute
from ringtree.formats.imported import FormatError, Imported
from ringtree.formats.msccl.file import RECEIVES, SENDS, Algo, MscclGpu, MscclStep, ThreadBlock, read_algo
from ringtree.formats.raising import raise_schedule
from ringtree.formats.settle import settle
from ringtree.formats.steps import Step, link
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.ir.spec import check

COLLECTIVES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}


def from_bytes(path: Path, data: bytes) -> Imported:
    """The file's schedule and its programs. FormatError, in one line: if it is no MSCCL program or a broken one."""
    algo = read_algo(path, data)
    memory = _memory(algo)
    writers = [_Writer(algo, gpu, memory) for gpu in algo.gpus]
    programs = tuple(w.program() for w in writers)

    def where(rank: int, thread: int, instruction: int) -> str:
        return writers[rank].where(thread, writers[rank].numbers[thread][instruction])

    check_size(programs, memory, path)
    execution = execute(programs, memory, where, _name)
    if memory.promise.blocked and memory.chunks % memory.ranks:
        expected = f"{algo.words['coll']} expects a multiple of its {memory.ranks} gpus"
        raise FormatError(f"{path}: nchunksperloop is {memory.chunks}; {expected}")
    schedule = raise_schedule(programs, memory, execution, algo.words["name"])
    check(schedule)
    return Imported(schedule, settle(programs, memory, execution), _facts(algo))


def _facts(algo: Algo) -> dict[str, str | int]:
    blocks = [b for gpu in algo.gpus for b in gpu.blocks]
    copies = sum(len(gpu.copies) for gpu in algo.gpus)
    return {
        "format": "MSCCL XML",
        **algo.words,
        **algo.numbers,
        "thread_blocks": len(blocks),
        "steps": sum(len(b.steps) for b in blocks),
        **({"copies": copies} if copies else {}),
    }


def _memory(algo: Algo) -> NamedMemory:
    coll, chunks, ranks = algo.words["coll"], algo.numbers["nchunksperloop"], algo.numbers["ngpus"]
    if coll not in COLLECTIVES:
        raise FormatError(f"{algo.path}: coll {coll[:20]!r}; expected one of {', '.join(COLLECTIVES)}")
    if not 1 <= chunks < 2**20:
        raise FormatError(f"{algo.path}: nchunksperloop is {chunks}; expected 1..{2**20 - 1}")
    for key in ("inplace", "outofplace"):
        if algo.numbers.get(key, 0) not in (0, 1):
            raise FormatError(f"{algo.path}: {key} is {algo.numbers[key]}; expected 0 or 1")
    memory = NamedMemory(COLLECTIVES[coll], ranks, chunks, algo.numbers["inplace"] == 1)
    for gpu in algo.gpus:
        for buffer, window in (("i", memory.precondition(gpu.id)), ("o", memory.postcondition(gpu.id))):
            if gpu.chunks[buffer] not in (0, len(window)) and not (memory.promise.blocked and chunks % ranks):
                raise FormatError(
                    f"{algo.where(gpu.id)}: {buffer}_chunks is {gpu.chunks[buffer]}; {coll} of {chunks} chunks expects "
                    f"{len(window)} (or 0 if unused)"
                )
        if not 0 <= gpu.chunks["s"] < 2**20:
            raise FormatError(f"{algo.where(gpu.id)}: s_chunks is {gpu.chunks['s']}; expected 0..{2**20 - 1}")
    return memory


def _name(o: Operand) -> str:
    span = f"{o.index}" if o.count == 1 else f"{o.index}:{o.index + o.count}"
    return f"{NAMES[o.space]}[{span}]"


class _Writer:
    """Writes one gpu's program, in the file's own terms: labels are open, and i and o may be the same memory.
    `numbers`: the step that each instruction of a thread comes from."""

    def __init__(self, algo: Algo, gpu: MscclGpu, memory: NamedMemory) -> None:
        self.algo, self.gpu, self.memory = algo, gpu, memory
        self.index = {b.id: at for at, b in enumerate(gpu.blocks)}
        self.numbers: list[list[int]] = []

    def where(self, thread: int, number: int) -> str:
        if thread == len(self.gpu.blocks):
            return f"{self.algo.where(self.gpu.id)} copy {number}, line {self.gpu.copies[number].line}"
        return self.algo.where(self.gpu.id, thread, number)

    def program(self) -> Program:
        a, m = self.algo, self.memory
        threads = [self._thread(at, block) for at, block in enumerate(self.gpu.blocks)]
        copies = self._copies()
        if any(step.code for step in copies):
            for thread in threads:
                thread[:1] = [Step(s.code, [*s.before, (len(threads), len(copies) - 1)]) for s in thread[:1]]
            threads.append(copies)
        self.numbers = [[n for n, step in enumerate(steps) for _ in step.code] for steps in threads]
        linked = link(threads, self.where)
        scratch = self.gpu.chunks["s"]
        return Program(a.words["name"], m.collective, self.gpu.id, m.ranks, m.chunks, linked, None, scratch, m.aliased)

    def _copies(self) -> list[Step]:
        """The gpu's <copy> elements, done before its thread blocks begin; none where both ends are one memory."""
        steps = []
        for number, copy in enumerate(self.gpu.copies):
            where = self.where(len(self.gpu.blocks), number)
            source, target = self._window(where, "i", copy.source, 1), self._window(where, "o", copy.target, 1)
            same = self.memory.cells(self.gpu.id, source) == self.memory.cells(self.gpu.id, target)
            steps.append(Step([] if same else [Instruction(Kind.COPY, (target,), (source,))]))
        return steps

    def _thread(self, at: int, block: ThreadBlock) -> list[Step]:
        steps = []
        for number, step in enumerate(block.steps):
            before = [] if step.depends is None else [(self.index[step.depends[0]], step.depends[1])]
            steps.append(Step([] if step.type == "nop" else [*self._step(at, block, number, step)], before))
        return steps

    def _step(self, at: int, block: ThreadBlock, number: int, step: MscclStep) -> Iterator[Instruction]:
        """Receive, move, send, release. Registers have the thread's number: it has one message and one slot at most."""
        kind, count, channel = step.type, step.count, block.channel
        message, slot = (Operand(space, at, -1, count) for space in (Space.MESSAGE, Space.SLOT))
        sources, targets = [], []
        if kind == "re":
            sources.append(self._operand(at, number, step.target, count))
        if kind not in ("r", "rcs"):
            sources.append(self._operand(at, number, step.source, count))
        if kind in RECEIVES:
            sources.append(message)
            yield Instruction(Kind.WAIT, peer=block.recv, register=at, channel=channel)
        if kind not in ("s", "rrs"):
            targets.append(self._operand(at, number, step.target, count))
        if kind in SENDS:
            targets.append(slot)
        yield Instruction(Kind.COPY if len(sources) == 1 else Kind.REDUCE, tuple(targets), tuple(sources))
        if kind in SENDS:
            yield Instruction(Kind.SIGNAL, peer=block.send, register=at, channel=channel)
        if kind in RECEIVES:
            yield Instruction(Kind.RELEASE, peer=block.recv, channel=channel)

    def _operand(self, at: int, number: int, operand: tuple[str, int], count: int) -> Operand:
        buffer, first = operand
        where = self.where(at, number)
        found = self._window(where, buffer, first, count)
        if not self.memory.aliased and buffer == "i" and self.gpu.blocks[at].steps[number].target is operand:
            raise FormatError(f"{where}: writes its input, and the file has no inplace=1; expected o or s")
        return found

    def _window(self, where: str, buffer: str, first: int, count: int) -> Operand:
        """Chunks of a buffer; FormatError where it has no such."""
        window = {"i": self.memory.precondition, "o": self.memory.postcondition}.get(buffer)
        length = len(window(self.gpu.id)) if window else self.gpu.chunks["s"]
        if self.memory.promise.blocked and self.memory.chunks % self.memory.ranks and window:
            length = max(length, self.gpu.chunks[buffer])
        if first < 0 or first + count > length:
            raise FormatError(f"{where}: {buffer}[{first}:{first + count}]; its buffer {buffer} has {length} chunks")
        return Operand(SPACES[buffer], first, -1, count)
