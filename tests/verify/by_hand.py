"""Small schedules and programs written by hand, right and wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers

Row = tuple[int, int, int, bool, int]
"""source, target, chunk, reduce, round"""


def schedule(collective: str, ranks: int, chunks: int, rows: Iterable[Row], **more: Any) -> Schedule:
    source, target, chunk, reduce, round_ = zip(*rows, strict=True)
    return of(collective, ranks, chunks, Transfers.of(source, target, chunk, reduce=reduce, round=round_), **more)


def of(collective: str, ranks: int, chunks: int, *rows: Transfers, **more: Any) -> Schedule:
    return Schedule("hand", collective, ranks, chunks, (Block(Transfers.concatenate(rows)),), **more)


def through_two_buffers(source: Any, target: Any, chunk: Any = 0, **more: Any) -> Transfers:
    return Transfers.of(source, target, chunk, source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT, **more)


def program(
    rank: int, *threads: Iterable[Instruction], ranks: int = 2, collective: str = "broadcast", **more: Any
) -> Program:
    more = {"chunks": 1, "root": 0 if collective == "broadcast" else None, "aliasable": False, **more}
    code = tuple(tuple(t) for t in threads)
    return Program("hand", collective, rank, ranks, more.pop("chunks"), code, **more)


def operand(text: str, label: int = 0, at: int = -1) -> Operand:
    """`input0`, `output1`, `scratch0`, `slot0`, `message0`; `at`: the rank whose memory it is."""
    name = text.rstrip("0123456789")
    return Operand(Space[name.upper()], int(text[len(name) :]), label, 1, at)


def copy(target: str, source: str, label: int = 0, **more: Any) -> Instruction:
    targets = tuple(operand(t, label) for t in target.split())
    return Instruction(Kind.COPY, targets, (operand(source, label),), **more)


def reduce(target: str, sources: str, label: int = 0, **more: Any) -> Instruction:
    targets = tuple(operand(t, label) for t in target.split())
    return Instruction(Kind.REDUCE, targets, tuple(operand(s, label) for s in sources.split()), **more)


def put(target: str, at: int, source: str, label: int = 0) -> Instruction:
    """One-sided: stores into rank `at`'s memory."""
    return Instruction(Kind.COPY, (operand(target, label, at),), (operand(source, label),))


def get(target: str, source: str, at: int, label: int = 0, **more: Any) -> Instruction:
    """One-sided: reads rank `at`'s memory."""
    return Instruction(Kind.COPY, (operand(target, label),), (operand(source, label, at),), **more)


def signal(peer: int, register: int = -1, channel: int = 0) -> Instruction:
    return Instruction(Kind.SIGNAL, peer=peer, register=register, channel=channel)


def wait(peer: int, register: int = -1, channel: int = 0, **more: Any) -> Instruction:
    return Instruction(Kind.WAIT, peer=peer, register=register, channel=channel, **more)


def release(peer: int, channel: int = 0) -> Instruction:
    return Instruction(Kind.RELEASE, peer=peer, channel=channel)
