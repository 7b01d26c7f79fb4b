"""Shared by the native engine's tests: forked ranks around one memfd, and programs written by hand."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_char as c_char
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtree import _native
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space

SLOTS, SLOT_BYTES = 8, 4096


@dataclass
class Ended:
    """How a rank ended: what it returned, or the error's class and text."""

    value: Any = None
    error: type[BaseException] | None = None
    text: str = ""
    args: tuple[Any, ...] = ()


def endpoint(
    fd: int,
    rank: int,
    ranks: int,
    *,
    timeout_s: float = 60.0,
    threads: bool = False,
    inherited: _native.InheritedLiveness | None = None,
    single_copy_bytes: int | Sequence[int] = 0,
    nodes: Sequence[int] = (),
    **sizes: int,
) -> _native.Group:
    names = [str(r) for r in range(ranks)]
    slots, slot_bytes = sizes.get("slots", SLOTS), sizes.get("slot_bytes", SLOT_BYTES)
    return _native.Group(
        os.dup(fd), rank, ranks, slots=slots, slot_bytes=slot_bytes, timeout_s=timeout_s,
        oversubscribed=ranks > (os.cpu_count() or 1), threads=threads, names=names, inherited=inherited,
        single_copy_bytes=single_copy_bytes if isinstance(single_copy_bytes, int) else single_copy_bytes[rank],
        nodes=list(nodes),
    )  # fmt: skip


@contextmanager
def segment(ranks: int, slots: int = SLOTS, slot_bytes: int = SLOT_BYTES) -> Iterator[int]:
    fd = os.memfd_create("test")
    os.ftruncate(fd, _native.segment_bytes(ranks, slots, slot_bytes))
    try:
        yield fd
    finally:
        os.close(fd)


def _attempt(fn: Callable[[], Any]) -> Ended:
    try:
        return Ended(fn())
    except BaseException as e:  # noqa: BLE001
        return Ended(None, type(e), f"{e}\n{traceback.format_exc()}", e.args)


def world(ranks: int, fn: Callable[[_native.Group, int], Any], **parameters: Any) -> list[Ended]:
    """Runs fn(group, rank) in `ranks` forked processes. A rank that was killed ends with error SystemExit."""
    sizes = {k: parameters[k] for k in ("slots", "slot_bytes") if k in parameters}
    with segment(ranks, **sizes) as fd:
        kids = []
        for rank in range(ranks):
            mine, theirs = os.pipe()
            pid = os.fork()
            if pid == 0:
                ended = Ended(None, SystemExit)
                try:
                    group = endpoint(fd, rank, ranks, **parameters)
                    ended = _attempt(lambda: fn(group, rank))  # noqa: B023
                    closing = _attempt(group.close)
                    ended = closing if closing.error and not ended.error else ended
                except BaseException:  # noqa: BLE001
                    traceback.print_exc()
                finally:
                    with os.fdopen(theirs, "wb") as pipe:
                        pickle.dump(ended, pipe)
                    os._exit(0)
            os.close(theirs)
            kids.append((pid, mine))
        return [_collect(*kid) for kid in kids]


def _collect(pid: int, pipe: int) -> Ended:
    with os.fdopen(pipe, "rb") as file:
        pickled = file.read()
    os.waitpid(pid, 0)
    return pickle.loads(pickled) if pickled else Ended(None, SystemExit)


def thread_world(ranks: int, fn: Callable[[_native.Group, int], Any], **parameters: Any) -> list[Ended]:
    """The same with threads of this process."""
    ends: list[Ended] = [Ended()] * ranks

    def live(rank: int, fd: int) -> None:
        group = endpoint(fd, rank, ranks, threads=True, **parameters)
        ends[rank] = _attempt(lambda: fn(group, rank))
        group.close()

    with segment(ranks) as fd:
        lives = [threading.Thread(target=live, args=(rank, fd)) for rank in range(ranks)]
        for life in lives:
            life.start()
        for life in lives:
            life.join()
    return ends


def values(ends: list[Ended]) -> list[Any]:
    """The ranks' results; fails with the first traceback if one raised."""
    for rank, end in enumerate(ends):
        assert end.error is None, f"rank {rank}: {end.text}"
    return [end.value for end in ends]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


# Programs by hand.


def at(space: Space, index: int, label: int | None = None, count: int = 1) -> Operand:
    return Operand(space, index, index if label is None else label, count)


def send(slot: int, source: Operand, *peers: int) -> list[Instruction]:
    copy = Instruction(Kind.COPY, (Operand(Space.SLOT, slot, source.label, source.count),), (source,))
    return [copy, *(Instruction(Kind.SIGNAL, peer=p, register=slot) for p in peers)]


def receive(target: Operand, peer: int) -> list[Instruction]:
    message = Operand(Space.MESSAGE, 0, target.label, target.count)
    wait = Instruction(Kind.WAIT, peer=peer, register=0)
    return [wait, Instruction(Kind.COPY, (target,), (message,)), Instruction(Kind.RELEASE, peer=peer)]


def one_shot(rank: int, n: int) -> Program:
    """all_reduce: everyone sends everything to everyone, and adds in rank order."""
    others = [(rank + k) % n for k in range(1, n)]
    steps = send(0, at(Space.INPUT, 0), *others)
    steps += [Instruction(Kind.WAIT, peer=p, register=p) for p in others]
    parameters = tuple(at(Space.INPUT, 0) if p == rank else Operand(Space.MESSAGE, p, 0) for p in range(n))
    steps.append(Instruction(Kind.REDUCE if n > 1 else Kind.COPY, (at(Space.OUTPUT, 0),), parameters))
    steps += [Instruction(Kind.RELEASE, peer=p) for p in others]
    return Program("one_shot", "all_reduce", rank, n, 1, (tuple(steps),))


def two_shot(rank: int, n: int) -> Program:
    """all_reduce: rank i adds chunk i of everyone, in rank order, and sends the sum to everyone."""
    others = [(rank + k) % n for k in range(1, n)]
    steps = [step for k, p in enumerate(others) for step in send(k, at(Space.INPUT, p), p)]
    steps += [Instruction(Kind.WAIT, peer=p, register=p) for p in others]
    parameters = tuple(at(Space.INPUT, rank) if p == rank else Operand(Space.MESSAGE, p, rank) for p in range(n))
    steps.append(Instruction(Kind.REDUCE, (at(Space.OUTPUT, rank), Operand(Space.SLOT, n, rank)), parameters))
    steps += [Instruction(Kind.RELEASE, peer=p) for p in others]
    steps += [Instruction(Kind.SIGNAL, peer=p, register=n) for p in others]
    steps += [step for p in others for step in receive(at(Space.OUTPUT, p), p)]
    return Program("two_shot", "all_reduce", rank, n, n, (tuple(steps),))


def broadcast(rank: int, n: int, root: int) -> Program:
    """The root sends to each; its own output is its input."""
    others = [(root + k) % n for k in range(1, n)]
    if rank == root:
        copy = Instruction(Kind.COPY, (at(Space.OUTPUT, 0),), (at(Space.INPUT, 0),))
        steps = [*send(0, at(Space.INPUT, 0), *others), copy]
    else:
        steps = receive(at(Space.OUTPUT, 0), root)
    return Program("flat", "broadcast", rank, n, 1, (tuple(steps),), root=root)


def cuts(count: int, chunks: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sizes and offsets of chunks as even as can be."""
    sizes = np.full(chunks, count // chunks, dtype=np.int64)
    sizes[: count % chunks] += 1
    return sizes, np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


def prepare(
    group: _native.Group,
    program: Program,
    count: int,
    dtype: str = "float32",
    redop: str | None = "sum",
    window: int = 0,
    digest: int = 7,
    single_copy: bool = False,
) -> int:
    """Binds a program whose input and output are both the whole vector."""
    sizes, offsets = cuts(count, program.chunks)
    root = -1 if program.root is None else program.root
    op = -1 if redop is None else _native.OPS[redop]
    return group.prepare(
        *program.encode(), sizes, offsets, offsets, program.scratch, window, _native.DTYPES[dtype], op,
        program.collective, root, count, digest, single_copy,
    )  # fmt: skip


def run(group: _native.Group, plan: int, x: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
    group.run(plan, x.ctypes.data, out.ctypes.data)
    return out
