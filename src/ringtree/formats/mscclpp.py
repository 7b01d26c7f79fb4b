"""MSCCL++ execution plans: JSON, as microsoft/mscclpp's executor runs them. One-sided: a thread block reads and writes
its peers' memory and signals them by semaphores.

Read are the plans of memory channels: copy, put, get, the reductions re, res, rre, rres, signal and wait with their
relaxed forms, and nop, which is the thread block's own barrier. Packets carry their flags in scratch, switch channels
add up in the network, pipelines loop over pieces of a chunk: plans of these are refused.

The i-th channel of a gpu to a peer is paired with the peer's i-th channel back. Only one thread of a block signals or
waits, so a nop must stand between moving data and signalling, and between waiting and moving data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ringtree.files.json_values import json_value
from ringtree.formats.execution import NAMES, SPACES, NamedMemory, check_size, execute
from ringtree.formats.imported import FormatError, Imported
from ringtree.formats.raising import raise_schedule
from ringtree.formats.settle import settle
from ringtree.ir.program import Instruction, Kind, Operand, Program
from ringtree.ir.spec import check

COLLECTIVES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
_MOVES = {"copy", "put", "get"}
_SUMS = {"re", "res", "rre", "rres"}
_SIGNALS = {"signal": Kind.SIGNAL, "rlxsignal": Kind.SIGNAL, "wait": Kind.WAIT, "rlxwait": Kind.WAIT}
_FIELDS = {"name", "src_buff", "dst_buff", "channel_type", "channel_ids", "reduce_op"}
_REASONS = {
    "pipeline": "loops over pieces of a chunk, which the chunks of a schedule cannot express",
    "barrier": "a barrier between thread blocks",
    "flush": "completes the sends of a port channel, and only memory channels are read",
    "sem_acquire": "a semaphore between thread blocks",
    "sem_release": "a semaphore between thread blocks",
}


class _Op(NamedTuple):
    number: int
    name: str
    fields: Mapping[str, Any]


def from_bytes(path: Path, data: bytes) -> Imported:
    """The plan's schedule and programs. FormatError, in one line: if it is no plan, or not a supported one."""
    try:
        plan = json_value(data, str(path), "an execution plan")
    except ValueError as error:
        raise FormatError(str(error)) from None
    file = _File(path, plan)
    gpus = [_Gpu(file, gpu) for gpu in file.gpus]
    programs = tuple(g.program() for g in gpus)

    def where(rank: int, thread: int, step: int) -> str:
        return gpus[rank].where(thread, gpus[rank].ops[thread][step])

    check_size(programs, file.memory, path)
    execution = execute(programs, file.memory, where, _name)
    schedule = raise_schedule(programs, file.memory, execution, file.name)
    check(schedule)
    return Imported(schedule, settle(programs, file.memory, execution, where), file.facts)


class _File:
    """The plan's head, checked; gpus by id."""

    def __init__(self, path: Path, plan: object) -> None:
        self.path = path
        head = self.get(plan, dict, "an execution plan")
        self.name: str = self.item(head, "name", str)
        coll = self.item(head, "collective", str)
        if coll not in COLLECTIVES:
            raise self.refuse(f"collective {coll[:20]!r}; expected one of {', '.join(COLLECTIVES)}")
        gpus = [self.get(g, dict, "gpu") for g in self.item(head, "gpus", list)]
        self.gpus = sorted(gpus, key=lambda g: self.number(g, "id"))
        n = len(gpus)
        if not n or [g["id"] for g in self.gpus] != list(range(n)):
            raise self.refuse(f"gpus have ids {[g['id'] for g in self.gpus][:8]}; expected 0..{max(n - 1, 0)}")
        self.scratch = [self.number(g, "scratch_chunks") for g in self.gpus]
        self.memory = self._memory(coll, n, self.item(head, "inplace", bool))
        self.facts: dict[str, str | int] = {
            "format": "MSCCL++ execution plan",
            **{key: value for key, value in head.items() if isinstance(value, (str, int))},
            "thread_blocks": sum(len(self.item(g, "threadblocks", list)) for g in self.gpus),
        }

    def _memory(self, coll: str, n: int, inplace: bool) -> NamedMemory:
        given, made = (self.number(self.gpus[0], key) for key in ("input_chunks", "output_chunks"))
        memory = NamedMemory(COLLECTIVES[coll], n, given * n if coll == "allgather" else given, inplace)
        if not 1 <= memory.chunks < 2**20 or (memory.promise.blocked and memory.chunks % n):
            raise self.refuse(f"input_chunks is {given}; expected at least 1, and whole blocks for {n} gpus")
        for rank, gpu in enumerate(self.gpus):
            windows = ("input_chunks", memory.precondition(rank)), ("output_chunks", memory.postcondition(rank))
            for key, window in windows:
                unused = key == "output_chunks" and inplace and not made
                if self.number(gpu, key) != len(window) and not unused:
                    raise self.refuse(f"gpu {rank} has {key} {gpu[key]}; {coll} expects {len(window)}")
        return memory

    def refuse(self, problem: str) -> FormatError:
        return FormatError(f"{self.path}: {problem}")

    def get(self, value: object, kind: type, what: str) -> Any:
        """The value; FormatError where it is not of that kind."""
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            words = {dict: "an object", list: "a list", int: "a number", str: "a string", bool: "true or false"}
            raise self.refuse(f"{what} is {json.dumps(value)[:30]}; expected {words[kind]}")
        return value

    def item(self, holder: Mapping[str, Any], key: str, kind: type) -> Any:
        if key not in holder:
            raise self.refuse(f"{json.dumps(holder)[:40]}… lacks {key!r}")
        return self.get(holder[key], kind, key)

    def number(self, holder: Mapping[str, Any], key: str) -> int:
        value: int = self.item(holder, key, int)
        if not 0 <= value < 2**20:
            raise self.refuse(f"{key} is {value}; expected 0..{2**20 - 1}")
        return value


class _Gpu:
    """Writes one gpu's program. `ops`: per thread, the operation that each instruction comes from."""

    def __init__(self, file: _File, gpu: Mapping[str, Any]) -> None:
        self.file, self.gpu, self.rank = file, gpu, int(gpu["id"])
        self.blocks = [file.get(b, dict, "thread block") for b in file.item(gpu, "threadblocks", list)]
        self.peers = self._peers()
        self.ops: list[list[_Op]] = []

    def where(self, thread: int, op: _Op) -> str:
        block = self.blocks[thread].get("id", thread)
        return f"{self.file.path}: gpu {self.rank} tb {block} op {op.number} ({op.name})"

    def _peers(self) -> list[int]:
        """The peer of each of the gpu's memory channels."""
        peers: list[int] = []
        for entry in self.file.item(self.gpu, "channels", list):
            channel = self.file.get(entry, dict, "channel")
            if channel.get("channel_type") == "memory":
                peers += [self.file.get(p, int, "connected_to") for p in self.file.item(channel, "connected_to", list)]
        for peer in peers:
            if not 0 <= peer < len(self.file.gpus) or peer == self.rank:
                raise self.file.refuse(f"gpu {self.rank} has a channel to gpu {peer}; expected another gpu")
        return peers

    def program(self) -> Program:
        m = self.file.memory
        threads = []
        for thread, block in enumerate(self.blocks):
            code: list[Instruction] = []
            ops: list[_Op] = []
            for op in self._checked(thread, block):
                for instruction in self._instructions(thread, block, op):
                    code.append(instruction)
                    ops.append(op)
            threads.append(tuple(code))
            self.ops.append(ops)
        scratch = self.file.scratch[self.rank]
        return Program(
            self.file.name, m.collective, self.rank, m.ranks, m.chunks, tuple(threads), None, scratch, m.aliased
        )

    def _checked(self, thread: int, block: Mapping[str, Any]) -> Iterator[_Op]:
        """The block's operations; refuses unsupported ones, and those that a nop must separate."""
        last = ""
        for number, fields in enumerate(self.file.item(block, "ops", list)):
            fields = self.file.get(fields, dict, "op")
            op = _Op(number, str(self.file.item(fields, "name", str))[:20], fields)
            known = {*_MOVES, *_SUMS, *_SIGNALS, "nop"}
            if op.name not in known:
                packet = "carries its flags in packets" if op.name.endswith("pkt") else ""
                reason = _REASONS.get(op.name) or packet or "is not known"
                raise FormatError(f"{self.where(thread, op)}: {reason}; expected one of {', '.join(sorted(known))}")
            if set(fields) - _FIELDS:
                odd = min(set(fields) - _FIELDS)
                raise FormatError(f"{self.where(thread, op)}: has {odd!r}; known are {', '.join(sorted(_FIELDS))}")
            if fields.get("channel_type", "memory") != "memory":
                kind = json.dumps(fields["channel_type"])[:20]
                raise FormatError(f"{self.where(thread, op)}: is on a channel of type {kind}; expected memory")
            kind = "nop" if op.name == "nop" else str(_SIGNALS[op.name].name) if op.name in _SIGNALS else "move"
            if (last, kind) in (("move", "SIGNAL"), ("WAIT", "move")):
                raise FormatError(f"{self.where(thread, op)}: follows a {last.lower()} at once; expected a nop between")
            last = kind
            yield op

    def _instructions(self, thread: int, block: Mapping[str, Any], op: _Op) -> Iterator[Instruction]:
        if op.name == "nop":
            return
        if op.name in _SIGNALS:
            for channel in self._channels(thread, block, op):
                peer = self.peers[channel]
                yield Instruction(_SIGNALS[op.name], peer=peer, channel=self.peers[:channel].count(peer))
            return
        sources = self._operands(thread, block, op, "src_buff")
        targets = self._operands(thread, block, op, "dst_buff")
        if op.name in _SUMS and op.fields.get("reduce_op") != "sum":
            problem = json.dumps(op.fields.get("reduce_op"))[:20]
            raise FormatError(f"{self.where(thread, op)}: reduce_op is {problem}; expected sum")
        expected = (1, 1) if op.name in _MOVES else (2, 1)
        if len(sources) < expected[0] or not targets or (op.name in _MOVES and (len(sources), len(targets)) != (1, 1)):
            counts = f"{len(sources)} sources and {len(targets)} targets"
            raise FormatError(f"{self.where(thread, op)}: has {counts}; expected {expected[0]} and {expected[1]}")
        if len({o.count for o in (*sources, *targets)}) > 1:
            raise FormatError(f"{self.where(thread, op)}: its buffers differ in size; expected one size")
        yield Instruction(Kind.REDUCE if op.name in _SUMS else Kind.COPY, tuple(targets), tuple(sources))

    def _channels(self, thread: int, block: Mapping[str, Any], op: _Op) -> list[int]:
        """The gpu's channels that the op names by their position in its block's list."""
        mine = self._refs(block, "channels", "channel_type", "channel_ids")
        named = self.file.item(op.fields, "channel_ids", list)
        return [self._pick(thread, op, "channel", mine, index, len(self.peers)) for index in named]

    def _refs(self, block: Mapping[str, Any], key: str, kind: str, ids: str) -> list[int]:
        """The gpu's channels or remote buffers that a block lists, for memory channels."""
        found: list[int] = []
        for entry in self.file.get(block.get(key, []), list, key):
            if self.file.get(entry, dict, key).get(kind) == "memory":
                found += [self.file.get(i, int, ids) for i in self.file.item(entry, ids, list)]
        return found

    def _pick(self, thread: int, op: _Op, what: str, mine: Sequence[int], index: object, count: int) -> int:
        if not isinstance(index, int) or not 0 <= index < len(mine) or not 0 <= mine[index] < count:
            raise FormatError(
                f"{self.where(thread, op)}: names {what} {json.dumps(index)[:20]}, which it does not have"
            )
        return mine[index]

    def _operands(self, thread: int, block: Mapping[str, Any], op: _Op, key: str) -> list[Operand]:
        return [
            self._operand(thread, block, op, self.file.get(b, dict, key)) for b in self.file.item(op.fields, key, list)
        ]

    def _operand(self, thread: int, block: Mapping[str, Any], op: _Op, reference: Mapping[str, Any]) -> Operand:
        file, owner, buffer = self.file, self.rank, reference.get("type")
        if "buffer_id" in reference:
            buffers = file.item(self.gpu, "remote_buffers", list)
            mine = self._refs(block, "remote_buffer_refs", "access_channel_type", "remote_buffer_ids")
            remote = file.get(
                buffers[self._pick(thread, op, "remote buffer", mine, reference["buffer_id"], len(buffers))],
                dict,
                "buffer",
            )
            owner, buffer = file.number(remote, "rank"), remote.get("type")
        if buffer not in SPACES or owner >= len(file.gpus):
            problem = json.dumps(reference)[:60]
            raise FormatError(f"{self.where(thread, op)}: {problem} is no buffer i, o or s of 0..{len(file.gpus) - 1}")
        first, count = file.number(reference, "index"), file.number(reference, "size")
        windows = {
            "i": file.memory.precondition(owner),
            "o": file.memory.postcondition(owner),
            "s": range(file.scratch[owner]),
        }
        if count < 1 or first + count > len(windows[buffer]):
            span = f"gpu {owner}'s {buffer}[{first}:{first + count}]"
            raise FormatError(f"{self.where(thread, op)}: {span}; it has {len(windows[buffer])} chunks")
        return Operand(SPACES[buffer], first, -1, count, -1 if owner == self.rank else owner)


def _name(o: Operand) -> str:
    owner = "" if o.rank < 0 else f"gpu {o.rank}'s "
    return f"{owner}{NAMES[o.space]}[{o.index}]"
