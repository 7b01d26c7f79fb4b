"""load(): a file of tensors on every rank of a group."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from ringtree.files.file_bytes import opened
from ringtree.runtime.communicator.composite import CompositeCall
from ringtree.storage.arguments import check_group, check_progress, file_path
from ringtree.storage.buffers import arrays_in, fits, mapped, private
from ringtree.storage.device import check_device, copied, read_into, reads_directly, tensors_in
from ringtree.storage.elements import named_element, torch_dtype
from ringtree.storage.gathering import Progress, bring, capacity, read_own, read_together, report
from ringtree.storage.header import EXPECTED, Header, digest_of, raw_header, read_header
from ringtree.storage.layout import FileLayout, Names, Shard, selected, sharded
from ringtree.storage.outcome import JointStage
from ringtree.storage.reading import Reader, samples

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from ringtree.runtime.communicator.communicator import Communicator

MEMORIES = ("private", "symmetric", "mapped")
FRAMEWORKS = ("numpy", "torch")
HOST = "cpu"
"""The device whose memory is the host's."""


def load(
    path: str | os.PathLike[str],
    comm: Communicator,
    *,
    names: Names = None,
    shard: Shard | slice = None,
    memory: str | None = None,
    framework: str = "numpy",
    dtype: DTypeLike | None = None,
    shape: Sequence[int] | int = (-1,),
    device: str = HOST,
    direct: bool | None = None,
    progress: Progress = None,
) -> Any:
    """The tensors of a safetensors file as a dict by name, on every rank; of a .npy file, or with `dtype` of a raw
    file of `shape`, its array. All ranks call it alike; each reads its part of the file.

    `names`: the tensors to load, or a function of the name. `shard`: by name, or from a function of name and shape,
    the slice of the first axis that this rank wants (of a file's one array, that slice); then each rank reads what it
    wants, and nothing is gathered.
    `memory`: "mapped", the file's own pages, one copy a host, copied where a rank writes (the file must not be changed
    or cut short in place while they are used; a new one under its name is no change); "private" to each rank, read
    once by all ranks together; "symmetric", the same where peers read it in place (comm.empty). None is "mapped" on
    one host, and "private" over several and for a device.
    `framework`: "numpy" or "torch"; with it, `device` may be a GPU ("cuda"): by kvikio, where that and the driver are
    there and a rank reads for itself alone, else by the host's memory. `direct`: past the page cache always (True),
    never (False), or for what is not in it. `progress(done, total)` is called with bytes as they arrive.

    Errors are the same on every rank, and name the one that met it. ValueError: if the file is none, is cut short, or
    its header does not describe it. OSError: if it cannot be read. MemoryError: without room. Mismatch: if ranks ask
    for different things, or find different files.
    """
    check_group(comm)
    where, stage, plan = Path(), JointStage(comm), None
    how = _How(_usual(comm, device) if memory is None else memory, framework, device, direct, progress)
    with CompositeCall(comm._fail, "load", alike=(Exception,)), ExitStack() as files:
        with stage.attempt():
            where = file_path(path)
            _check(how)
            file = files.enter_context(opened(where, EXPECTED if dtype is None else "a raw array"))
            plan = _planned(file, where, names, shard, (dtype, shape))
            if framework == "torch":
                _ = [torch_dtype(entry.element) for entry in plan.layout.entries]  # before much is read
        found = (plan.file, plan.wanted) if plan else (0, 0)
        request = {"path": digest_of(where.name), "shard": shard is None, "device": device != HOST}
        stage.agree(where.name, **request, memory=digest_of(how.memory), files=found[0], wanted_tensors=found[1])
        if not plan:
            raise AssertionError("agree raises what the stage met")
        tensors = _tensors(file, plan, comm, stage, how)
    return next(iter(tensors.values())) if plan.header.single else tensors


class _How(NamedTuple):
    """Arguments of load that decide where the bytes go, and by which way."""

    memory: str
    framework: str
    device: str
    direct: bool | None
    progress: Progress


class _Plan(NamedTuple):
    """The tensors that are read; `file`: the digest of the header and of samples of the data; `wanted`: that of the
    tensors, before they are sharded."""

    header: Header
    layout: FileLayout
    file: int
    wanted: int
    gathered: bool


def _usual(comm: Communicator, device: str) -> str:
    return "mapped" if device == HOST and len({*comm.hosts}) == 1 else "private"


def _check(how: _How) -> None:
    check_progress(how.progress)
    if how.memory not in MEMORIES:
        raise ValueError(f"memory is {how.memory!r}; expected one of {', '.join(MEMORIES)}")
    if how.framework not in FRAMEWORKS:
        raise ValueError(f"framework is {how.framework!r}; expected one of {', '.join(FRAMEWORKS)}")
    if how.framework == "torch" and not find_spec("torch"):
        raise ImportError("framework='torch' needs torch: pip install torch")
    if how.device != HOST:
        check_device(how.device, how.memory, how.framework)


def _planned(
    file: IO[bytes], path: Path, names: Names, shard: Shard | slice, raw: tuple[Any, Sequence[int] | int]
) -> _Plan:
    dtype, shape = raw
    if dtype is None and (not isinstance(shape, tuple) or shape != (-1,)):
        raise TypeError(f"shape is {shape!r}; expected dtype= with it, of a file that is elements and nothing else")
    if dtype is None:
        header = read_header(file, path)
    else:
        if not (size := os.fstat(file.fileno()).st_size) and file.read(1):
            raise ValueError(f"{path}: has bytes, but no length, as files of /proc; expected a plain file")
        header = raw_header(path, size, named_element(dtype), shape)
    if header.single and names is not None:
        raise ValueError(f"{path}: names= of a file of one array, which has no name; expected none, or shard= for rows")
    entries = selected(header, names)
    wanted = digest_of(repr([e.name for e in entries]))
    layout = FileLayout(sharded(entries, _by_name(shard, header), path))
    begin = header.entries[0].begin if header.entries else header.size
    found = digest_of(header.digest, samples(file.fileno(), begin, header.size))
    return _Plan(header, layout, found, wanted, gathered=shard is None)


def _by_name(shard: Any, header: Header) -> Shard:
    """The shard of each tensor; one slice is that of a file's one array."""
    if isinstance(shard, slice) and header.single:
        return {"": shard}
    if shard is None or callable(shard) or isinstance(shard, Mapping):
        return cast("Shard", shard)
    raise TypeError(
        f"{header.path}: shard is {shard!r}; expected a dict of slices by name, or a function of name, shape"
    )


def _tensors(file: IO[bytes], plan: _Plan, comm: Communicator, stage: JointStage, how: _How) -> dict[str, Any]:
    """The tensors, when all ranks have theirs."""
    found: dict[str, Any] = {}
    make = _read(file, plan, comm, stage, how)
    with stage.attempt():
        if stage.error is None:
            found = make()  # it may take memory: for copies of what lies unaligned, or on a device
    stage.agree(plan.header.path.name)
    return found


def _read(
    file: IO[bytes], plan: _Plan, comm: Communicator, stage: JointStage, how: _How
) -> Callable[[], dict[str, Any]]:
    """Reads this rank's part; a function that makes the tensors of it."""
    entries = plan.layout.entries
    if how.memory == "mapped":
        file_pages = _mapped(file, plan, comm, stage, how.progress)
        return lambda: arrays_in(file_pages, entries, lambda offset: offset, how.framework)
    if _read_directly(plan, comm, how.device):
        there = None
        with stage.attempt():
            there = read_into(how.device, plan.header.path, plan.header.size, plan.layout, how.progress)
        return lambda: tensors_in(there, entries, plan.layout.at)
    held = _memory(plan, how.memory, comm, stage)
    # what several ranks read by themselves, one of them brings into the page cache for all
    past_cache = how.direct if plan.gathered else bool(how.direct)
    with Reader(file.fileno(), plan.header.path, plan.header.size, past_cache) as reader:
        if plan.gathered:
            read_together(held, plan.layout, reader, comm, stage, how.progress)
        else:
            with stage.attempt():
                read_own(held, plan.layout, reader, how.progress)
    if how.device != HOST:
        return lambda: tensors_in(copied(held, how.device), entries, plan.layout.at)
    return lambda: arrays_in(held, entries, plan.layout.at, how.framework)


def _read_directly(plan: _Plan, comm: Communicator, device: str) -> bool:
    """Whether every rank reads its own shard into device memory by itself: where one cannot, all take the other way,
    which has other steps."""
    can = device != HOST and reads_directly()
    if comm.size == 1 or plan.gathered:
        return can and comm.size == 1
    return bool(comm.all_reduce(np.array([can], np.int64), "min")[0])


def _memory(plan: _Plan, kind: str, comm: Communicator, stage: JointStage) -> NDArray[np.uint8]:
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


def _mapped(
    file: IO[bytes], plan: _Plan, comm: Communicator, stage: JointStage, progress: Progress
) -> NDArray[np.uint8]:
    """The file's pages, after the ranks of each host together have brought the wanted ones into its memory, if they
    fit there at once."""
    here = [rank for rank, host in enumerate(comm.hosts) if host == comm.hosts[comm.rank]]
    held = np.empty(0, np.uint8)
    with stage.attempt():
        held = mapped(file.fileno(), plan.header.size, plan.header.path)
        if not fits(plan.layout.nbytes):  # what is read now would be gone before it is used
            report(progress, plan.layout.nbytes, plan.layout.nbytes)
            return held
        with Reader(file.fileno(), plan.header.path, plan.header.size, direct=False) as reader:
            share, shares = (here.index(comm.rank), len(here)) if plan.gathered else (0, 1)
            bring(plan.layout, reader, share, shares, progress)
    return held
