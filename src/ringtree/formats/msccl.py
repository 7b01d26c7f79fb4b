"""MSCCL XML: programs of thread blocks for GPUs, as microsoft/msccl, Azure/msccl-executor-nccl and RCCL run them.

A thread block is one sequential thread with at most one peer to send to and one to receive from; (peer, channel) names
the lane. Steps name chunks of the buffers i, o and s; where the file has `inplace`, input and output are one memory:
all_reduce i[k] = o[k], all_gather i[k] = o[gpu's block + k], reduce_scatter o[k] = i[gpu's block + k].
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

from ringtree.formats.execution import NAMES, SPACES, NamedMemory, check_size, execute
from ringtree.formats.imported import FormatError, Imported
from ringtree.formats.msccl_file import RECEIVES, SENDS, Algo, MscclGpu, MscclStep, ThreadBlock, read_algo
from ringtree.formats.raising import raise_schedule
from ringtree.formats.settle import settle
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.ir.spec import check

COLLECTIVES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
MOST_EFFORT = 2**20
"""Nops looked through for one gpu: far more than any compiler writes."""


def from_bytes(path: Path, data: bytes) -> Imported:
    """The file's schedule and its programs. FormatError, in one line: if it is no MSCCL program or a broken one."""
    algo = read_algo(path, data)
    memory = _memory(algo)
    programs = tuple(_Writer(algo, gpu, memory).program() for gpu in algo.gpus)
    steps = [[_step_numbers(b) for b in gpu.blocks] for gpu in algo.gpus]

    def where(rank: int, thread: int, instruction: int) -> str:
        return algo.where(rank, thread, steps[rank][thread][instruction])

    check_size(programs, memory, path)
    execution = execute(programs, memory, where, _name)
    if memory.promise.blocked and memory.chunks % memory.ranks:
        expected = f"{algo.words['coll']} expects a multiple of its {memory.ranks} gpus"
        raise FormatError(f"{path}: nchunksperloop is {memory.chunks}; {expected}")
    schedule = raise_schedule(programs, memory, execution, algo.words["name"])
    check(schedule)
    return Imported(schedule, settle(programs, memory, execution, where), _facts(algo))


def _facts(algo: Algo) -> dict[str, str | int]:
    blocks = [b for gpu in algo.gpus for b in gpu.blocks]
    return {
        "format": "MSCCL XML",
        **algo.words,
        **algo.numbers,
        "thread_blocks": len(blocks),
        "steps": sum(len(b.steps) for b in blocks),
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


def _step_numbers(block: ThreadBlock) -> list[int]:
    """The step that each instruction of the thread comes from."""
    return [number for number, step in enumerate(block.steps) for _ in range(_length(step))]


def _length(step: MscclStep) -> int:
    """The number of instructions of a step: its move, a wait and a release to receive, a signal to send."""
    return (step.type != "nop") + 2 * (step.type in RECEIVES) + (step.type in SENDS)


def _name(o: Operand) -> str:
    span = f"{o.index}" if o.count == 1 else f"{o.index}:{o.index + o.count}"
    return f"{NAMES[o.space]}[{span}]"


class _Writer:
    """Writes one gpu's program, in the file's own terms: labels are open, and i and o may be the same memory."""

    def __init__(self, algo: Algo, gpu: MscclGpu, memory: NamedMemory) -> None:
        self.algo, self.gpu, self.memory = algo, gpu, memory
        self.index = {b.id: at for at, b in enumerate(gpu.blocks)}
        self.last = [[n - 1 for n in accumulate(_length(s) for s in b.steps)] for b in gpu.blocks]
        self.effort = 0

    def program(self) -> Program:
        _check_order(self.algo, self.gpu)
        a, m = self.algo, self.memory
        threads = tuple(tuple(self._thread(at, block)) for at, block in enumerate(self.gpu.blocks))
        scratch = self.gpu.chunks["s"]
        return Program(a.words["name"], m.collective, self.gpu.id, m.ranks, m.chunks, threads, None, scratch, m.aliased)

    def _thread(self, at: int, block: ThreadBlock) -> list[Instruction]:
        code: list[Instruction] = []
        pending: list[tuple[int, int]] = []
        for number, step in enumerate(block.steps):
            if step.depends is not None:
                pending += self._done(*step.depends)
            if step.type != "nop":
                first, *rest = self._step(at, block, number, step)
                code += [first._replace(after=tuple(dict.fromkeys(pending))), *rest]
                pending.clear()
        return code

    def _done(self, block_id: int, number: int) -> list[tuple[int, int]]:
        """The (thread, instruction) pairs that must finish before that step counts as done. A nop is no instruction: in
        its stead the steps that it waits for count, and the step above it."""
        found: list[tuple[int, int]] = []
        open_, seen = [(block_id, number)], {(block_id, number)}
        while open_:
            block_id, number = open_.pop()
            at = self.index[block_id]
            if self.last[at][number] >= 0:
                found.append((at, self.last[at][number]))
            steps = self.gpu.blocks[at].steps
            if steps[number].type == "nop":
                before = [steps[number].depends, (block_id, number - 1) if number else None]
                more = [b for b in before if b is not None and b not in seen]
                seen.update(more)
                open_ += more
            self.effort += 1
            if self.effort > MOST_EFFORT:
                raise FormatError(f"{self.algo.where(self.gpu.id, at, number)}: nops that wait for too many nops")
        return found

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
        window = {"i": self.memory.precondition, "o": self.memory.postcondition}.get(buffer)
        length = len(window(self.gpu.id)) if window else self.gpu.chunks["s"]
        if self.memory.promise.blocked and self.memory.chunks % self.memory.ranks and window:
            length = max(length, self.gpu.chunks[buffer])
        where = self.algo.where(self.gpu.id, at, number)
        if first < 0 or first + count > length:
            raise FormatError(f"{where}: {buffer}[{first}:{first + count}]; its buffer {buffer} has {length} chunks")
        if (
            not self.memory.aliased
            and buffer == "i"
            and self.algo.gpus[self.gpu.id].blocks[at].steps[number].target is operand
        ):
            raise FormatError(f"{where}: writes its input, and the file has no inplace=1; expected o or s")
        return Operand(SPACES[buffer], first, -1, count)


def _check_order(algo: Algo, gpu: MscclGpu) -> None:
    """Refuses steps that wait for each other in a circle, which nops may hide from the execution."""
    waits: dict[tuple[int, int], int] = {}
    then: dict[tuple[int, int], list[tuple[int, int]]] = {}
    index = {b.id: at for at, b in enumerate(gpu.blocks)}
    for at, block in enumerate(gpu.blocks):
        for number, step in enumerate(block.steps):
            before = [(at, number - 1)] if number else []
            if step.depends is not None:
                before.append((index[step.depends[0]], step.depends[1]))
            waits[at, number] = len(before)
            for b in before:
                then.setdefault(b, []).append((at, number))
    ready = [s for s, count in waits.items() if not count]
    while ready:
        done = ready.pop()
        del waits[done]
        for s in then.get(done, ()):
            waits[s] -= 1
            if not waits[s]:
                ready.append(s)
    if waits:
        raise FormatError(f"{algo.where(gpu.id, *min(waits))}: deadlock: waits for a step that waits for it")
