"""load(): a file of tensors on every rank of a group."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ringtree.files.file_bytes import opened
from ringtree.runtime.arrays import dtype_named
from ringtree.storage.buffers import arrays_in, mapped, private
from ringtree.storage.gathering import Progress, bring, capacity, read_own, read_together
from ringtree.storage.header import EXPECTED, Header, digest_of, raw_header, read_header
from ringtree.storage.layout import Layout, Names, Shard, selected, sharded
from ringtree.storage.outcome import Stage
from ringtree.storage.reading import Reader

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from ringtree.runtime.communicator.communicator import Communicator

MEMORIES = ("private", "symmetric", "mapped")
FRAMEWORKS = ("numpy", "torch")


def load(
    path: str | os.PathLike[str],
    comm: Communicator,
    *,
    names: Names = None,
    shard: Shard = None,
    memory: str = "private",
    framework: str = "numpy",
    dtype: DTypeLike | None = None,
    shape: Sequence[int] = (-1,),
    direct: bool | None = None,
    progress: Progress = None,
) -> Any:
    """The tensors of a safetensors file as a dict by name, on every rank; of a .npy file, or with `dtype` of a raw
    file of `shape`, its array. All ranks call it alike; each reads its part of the file.

    `names`: the tensors to load, or a function of the name. `shard`: by name, or from a function of name and shape,
    the slice of the first axis that this rank wants; then each rank reads what it wants, and nothing is gathered.
    `memory`: "private" to each rank; "symmetric", where peers read it in place (comm.empty); "mapped", the file's own
    pages, one copy a host, copied where a rank writes, which must not be changed or cut short while they are used.
    `framework`: "numpy" or "torch". `direct`: past the page cache always (True), never (False), or for what is not in
    it. `progress(done, total)` is called with bytes as they arrive.

    Errors are the same on every rank, and name the one that met it. ValueError: if the file is none, is cut short, or
    its header does not describe it. OSError: if it cannot be read. MemoryError: without room. Mismatch: if ranks ask
    for different things, or find different files.
    """
    where, stage, plan = Path(path), Stage(comm), None
    with ExitStack() as files:
        with stage.attempt():
            _check(memory, framework)
            file = files.enter_context(opened(where, EXPECTED if dtype is None else "a raw array"))
            plan = _planned(file, where, names, shard, (dtype, shape))
        request = f"{where.name} {shard is None} {memory} {direct}"
        found = (plan.header.digest, plan.wanted) if plan else (0, 0)
        stage.agree(where.name, arguments=digest_of(request), files=found[0], wanted_tensors=found[1])
        if not plan:
            raise AssertionError("agree raises what the stage met")
        if memory == "mapped":
            held = _mapped(file, plan, comm, stage, progress)
        else:
            held = _memory(plan, memory, comm, stage)
            # what several ranks read by themselves, one of them brings into the page cache for all
            past_cache = direct if plan.gathered else bool(direct)
            with Reader(file.fileno(), where, plan.header.size, past_cache) as reader:
                if plan.gathered:
                    read_together(held, plan.layout, reader, comm, stage, progress)
                else:
                    with stage.attempt():
                        read_own(held, plan.layout, reader, progress)
        stage.agree(where.name)
    at = plan.layout.at if memory != "mapped" else lambda offset: offset
    arrays = arrays_in(held, plan.layout.entries, at, framework)
    return next(iter(arrays.values())) if plan.header.single else arrays


class _Plan(NamedTuple):
    """What is read; `wanted`: the digest of the tensors, before they are sharded."""

    header: Header
    layout: Layout
    wanted: int
    gathered: bool


def _check(memory: str, framework: str) -> None:
    if memory not in MEMORIES:
        raise ValueError(f"memory is {memory!r}; expected one of {', '.join(MEMORIES)}")
    if framework not in FRAMEWORKS:
        raise ValueError(f"framework is {framework!r}; expected one of {', '.join(FRAMEWORKS)}")
    if framework == "torch" and not find_spec("torch"):
        raise ImportError("framework='torch' needs torch: pip install torch")


def _planned(file: IO[bytes], path: Path, names: Names, shard: Shard, raw: tuple[Any, Sequence[int]]) -> _Plan:
    dtype, shape = raw
    if dtype is None:
        header = read_header(file, path)
    else:
        header = raw_header(path, os.fstat(file.fileno()).st_size, dtype_named(dtype), shape)
    entries = selected(header, names)
    wanted = digest_of(repr([e.name for e in entries]))
    return _Plan(header, Layout(sharded(entries, shard, path)), wanted, gathered=shard is None)


def _memory(plan: _Plan, kind: str, comm: Communicator, stage: Stage) -> NDArray[np.uint8]:
    """The buffer that is read into."""
    nbytes = capacity(plan.layout.nbytes, comm.size if plan.gathered else 1)
    if kind == "symmetric":  # the same on all ranks, whatever their shards; its errors are, too
        most = int(comm.all_reduce(np.array([nbytes], np.int64), "max")[0])
        return comm.empty(max(most, 1), np.uint8)
    held = np.empty(0, np.uint8)
    with stage.attempt():
        held = private(nbytes, comm.hosts.count(comm.hosts[comm.rank]))
    stage.agree()
    return held


def _mapped(file: IO[bytes], plan: _Plan, comm: Communicator, stage: Stage, progress: Progress) -> NDArray[np.uint8]:
    """The file's pages, after the ranks of each host together have brought the wanted ones into its memory."""
    here = [rank for rank, host in enumerate(comm.hosts) if host == comm.hosts[comm.rank]]
    held = np.empty(0, np.uint8)
    with stage.attempt():
        held = mapped(file.fileno(), plan.header.size)
        with Reader(file.fileno(), plan.header.path, plan.header.size, direct=False) as reader:
            share, shares = (here.index(comm.rank), len(here)) if plan.gathered else (0, 1)
            bring(plan.layout, reader, share, shares, progress)
    return held
