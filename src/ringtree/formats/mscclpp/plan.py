"""The head of an execution plan: its collective, its gpus, and the pieces that a chunk is cut into.

A thread block group divides an operation's range among its thread blocks, and a pipeline does its operations again and
again, each time on the next `unit_size` bytes. So that every range is whole, a chunk of the file is `fineness` pieces:
as many as the groups need, two iterations of a pipeline, and where the iterations reuse scratch, more than fit there.
The proof holds for sizes that the groups and the units divide.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import gcd, lcm
from pathlib import Path
from typing import Any, NamedTuple

from ringtree.files.own_kinds import kind_of_json
from ringtree.formats.execution import NamedMemory
from ringtree.formats.imported import FormatError

COLLECTIVES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
SCRATCH_NBYTES = 2**26
"""Scratch of a gpu where its plan reuses resources (PREDFINED_SCRATCH_SIZE of the executor)."""
MOST_PIECES = 2**12
"""The most pieces of a chunk: far more than any published plan needs, and few enough to be played in seconds."""
MOST_OPERATIONS = 2**17
"""The most operations of all gpus, with every iteration counted."""

MOST_COMPARISONS = 2**22
"""The most ranges of operations that are compared with each other: a second."""


class PipelineLoop(NamedTuple):
    """A pipeline: each of its `iterations` is done on the next `step` pieces of `chunks` chunks."""

    chunks: int
    step: int
    iterations: int


class Plan:
    """The plan's head, checked; gpus by id. `fineness`: pieces of a chunk. `ring`: pieces of a chunk of scratch, where
    the iterations of pipelines reuse them; else 0."""

    def __init__(self, path: Path, plan: object) -> None:
        self.path = path
        head = self.get(plan, dict, "an execution plan")
        if "gpus" not in head:
            names = ", ".join([json.dumps(name)[:20] for name in head][:4]) + ", …" * (len(head) > 4)
            kind = kind_of_json(head) or f"an object with {names}"
            raise self.refuse(f"{kind}; expected an MSCCL++ execution plan")
        self.name = self.word(head, "name")
        self.collective: str = self.item(head, "collective", str)
        gpus = [self.get(g, dict, "gpu") for g in self.item(head, "gpus", list)]
        self.gpus: list[Mapping[str, Any]] = sorted(gpus, key=lambda g: self.number(g, "id"))
        n = len(gpus)
        if not n or [g["id"] for g in self.gpus] != list(range(n)):
            raise self.refuse(f"gpus have ids {[g['id'] for g in self.gpus][:8]}; expected 0..{max(n - 1, 0)}")
        self.inplace: bool = self.item(head, "inplace", bool)
        self.unit_nbytes = self.operations = self.comparisons = 0
        self.ring = 0
        self.fineness = self._fineness(head)
        scratch = self.ring or self.fineness
        self.scratch = [self.number(g, "scratch_chunks") * scratch for g in self.gpus]
        self.memory = self._memory(self.inplace)
        self.facts: dict[str, str | int] = {
            "format": "MSCCL++ execution plan",
            **{key: value for key, value in head.items() if isinstance(value, (str, int))},
            "thread_blocks": sum(len(self.item(g, "threadblocks", list)) for g in self.gpus),
            **({"pieces_of_a_chunk": self.fineness} if self.fineness > 1 else {}),
        }

    def count(self, operations: int) -> None:
        """Counts what the plan does; FormatError where it is more than can be played."""
        self.operations += operations
        if self.operations > MOST_OPERATIONS:
            raise self.refuse(f"does more than {MOST_OPERATIONS} operations, its iterations counted one by one")

    def compare(self, ranges: int) -> None:
        """Counts ranges that are compared; FormatError where they are too many, for want of nops between."""
        self.comparisons += ranges
        if self.comparisons > MOST_COMPARISONS:
            raise self.refuse("has too many operations without a nop between to compare what they touch")

    def loop(self, context: object) -> PipelineLoop:
        """A pipeline's `iter_context`."""
        nbytes, chunks = self._context(context)
        step = nbytes // self.unit_nbytes
        return PipelineLoop(chunks, step, chunks * self.fineness // step)

    def _context(self, context: object) -> tuple[int, int]:
        found = self.get(context, dict, "iter_context")
        nbytes: int = self.item(found, "unit_size", int)
        chunks = self.number(found, "num_chunks")
        if not 0 < nbytes < 2**40 or not chunks:
            raise self.refuse(f"a pipeline takes {nbytes} bytes of {chunks} chunks a time; expected at least 1 of 1")
        return nbytes, chunks

    def _fineness(self, head: Mapping[str, Any]) -> int:
        """The pieces of a chunk, and `unit_nbytes`, the bytes of a piece where there are pipelines."""
        loops: list[tuple[int, int]] = []
        pieces = 1
        for op in self._ops():
            if "iter_context" in op:
                loops.append(self._context(op["iter_context"]))
            if "tbg_info" in op:
                size = self.group(op)[1]
                for key in ("src_buff", "dst_buff"):
                    for buffer in self.get(op.get(key, []), list, key):
                        count = self.number(self.get(buffer, dict, key), "size")
                        pieces = self._few(lcm(pieces, size // gcd(size, count)))
        if loops:
            self.unit_nbytes = gcd(*(nbytes for nbytes, _ in loops))
            steps = [(nbytes // self.unit_nbytes, chunks) for nbytes, chunks in set(loops)]
            for step, chunks in steps:
                pieces = self._few(lcm(pieces, step // gcd(step, chunks)))
            self.ring = self._ring(head, [nbytes for nbytes, _ in set(loops)])
            least = self.ring + max(step for step, _ in steps)
            if not self.ring:
                least = max(-(-2 * step // chunks) for step, chunks in steps)
            pieces = self._few(-(-least // pieces) * pieces)
        return pieces

    def _few(self, pieces: int) -> int:
        if pieces > MOST_PIECES:
            raise self.refuse(
                f"its groups and pipelines cut a chunk into more than {MOST_PIECES} pieces, too many to be played"
            )
        return pieces

    def _ring(self, head: Mapping[str, Any], loops: list[int]) -> int:
        """The pieces of a chunk of scratch that iterations reuse; 0 where there is none, or scratch grows with the
        message."""
        chunks = {self.number(g, "scratch_chunks") for g in self.gpus}
        if not head.get("reuse_resources") or chunks == {0}:
            return 0
        if len(chunks) > 1:
            raise self.refuse("reuses its scratch, of which its gpus have different chunks; expected as many")
        alignment = self.number(head, "buffer_alignment") if "buffer_alignment" in head else 16
        nbytes = -(-(SCRATCH_NBYTES // (2 if head.get("use_double_scratch_buffer") else 1)) // chunks.pop())
        nbytes = -(-nbytes // max(alignment, 1)) * max(alignment, 1)
        odd = next((unit for unit in loops if nbytes % unit), None)
        if odd is not None:
            raise self.refuse(
                f"a pipeline takes {odd} bytes a time; expected a divisor of {nbytes}, a chunk of scratch: "
                "an iteration would write into the next chunk"
            )
        return self._few(nbytes // self.unit_nbytes)

    def _ops(self) -> Iterator[Mapping[str, Any]]:
        """All operations, and those inside of pipelines."""
        for gpu in self.gpus:
            for block in self.item(gpu, "threadblocks", list):
                for op in self.item(self.get(block, dict, "thread block"), "ops", list):
                    yield self.get(op, dict, "op")
                    for inner in self.get(op.get("ops", []), list, "ops"):
                        yield self.get(inner, dict, "op")

    def group(self, op: Mapping[str, Any]) -> tuple[int, int]:
        """The thread block's place in the group that does the operation together, and the group's size."""
        if "tbg_info" not in op:
            return 0, 1
        info = self.get(op["tbg_info"], dict, "tbg_info")
        place, size = self.number(info, "tb_id"), self.number(info, "tbg_size")
        if place >= size:
            raise self.refuse(f"a thread block is number {place} of a group of {size}; expected 0..{size - 1}")
        return place, size

    def _memory(self, inplace: bool) -> NamedMemory:
        n = len(self.gpus)
        given, made = (self.number(self.gpus[0], key) * self.fineness for key in ("input_chunks", "output_chunks"))
        if self.collective not in COLLECTIVES:
            memory = NamedMemory("all_to_all", n, max(given, made, 1), inplace)
            if memory.chunks >= 2**20:
                raise self.refuse(f"has {memory.chunks} chunks; expected at most {2**20 - 1}")
            return memory
        memory = NamedMemory(
            COLLECTIVES[self.collective], n, given * n if self.collective == "allgather" else given, inplace
        )
        if not 1 <= memory.chunks < 2**20 or (memory.promise.blocked and memory.chunks % n):
            raise self.refuse(f"input_chunks is {given}; expected at least 1, and whole blocks for {n} gpus")
        for rank, gpu in enumerate(self.gpus):
            windows = ("input_chunks", memory.precondition(rank)), ("output_chunks", memory.postcondition(rank))
            for key, window in windows:
                unused = key == "output_chunks" and inplace and not made
                if self.number(gpu, key) * self.fineness != len(window) and not unused:
                    expected = len(window) // self.fineness
                    raise self.refuse(f"gpu {rank} has {key} {gpu[key]}; {self.collective} expects {expected}")
        return memory

    def refuse(self, problem: str) -> FormatError:
        """An error that names the file."""
        return FormatError(f"{self.path}: {problem}")

    def get(self, value: object, kind: type, what: str) -> Any:
        """The value; FormatError where it is not of that kind."""
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            words = {dict: "an object", list: "a list", int: "a number", str: "a string", bool: "true or false"}
            raise self.refuse(f"{what} is {json.dumps(value)[:30]}; expected {words[kind]}")
        return value

    def item(self, holder: Mapping[str, Any], key: str, kind: type) -> Any:
        """The value of a key; FormatError where there is none of that kind."""
        if key not in holder:
            raise self.refuse(f"{json.dumps(holder)[:40]}… lacks {key!r}")
        return self.get(holder[key], kind, key)

    def word(self, holder: Mapping[str, Any], key: str) -> str:
        """A name, as it may stand in a line of text."""
        return "".join(c if c.isprintable() else "?" for c in self.item(holder, key, str))

    def number(self, holder: Mapping[str, Any], key: str) -> int:
        """A number of chunks, gpus, channels."""
        value: int = self.item(holder, key, int)
        if not 0 <= value < 2**20:
            raise self.refuse(f"{key} is {value}; expected 0..{2**20 - 1}")
        return value
