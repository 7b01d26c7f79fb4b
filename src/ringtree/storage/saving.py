"""save(): tensors of all ranks into one file, which is there as a whole or not at all."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ringtree.files.json_values import json_value
from ringtree.files.unfinished import create, keep_access, unfinished_path
from ringtree.runtime.communicator.composite import CompositeCall
from ringtree.storage.arguments import check_group, check_progress, file_path
from ringtree.storage.elements import OF_NPY, WRITTEN, ElementType, element_of, raw_bytes, sampled_bytes
from ringtree.storage.gathering import PIECE_BYTES, Progress
from ringtree.storage.header import METADATA, Entry, digest_of, npy_bytes, safetensors_bytes
from ringtree.storage.layout import PAGE
from ringtree.storage.outcome import JointStage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringtree.runtime.communicator.communicator import Communicator

Shape = tuple[int, ...]
MOST_TABLE_BYTES = 100_000_000


class _Written(NamedTuple):
    """The file to be: its first bytes, and the tensors after them with the ranks that have each."""

    first_bytes: bytes
    entries: tuple[Entry, ...]
    holders: dict[str, tuple[int, ...]]


def save(
    tensors: Any,
    path: str | os.PathLike[str],
    comm: Communicator,
    *,
    metadata: Mapping[str, str] | None = None,
    progress: Progress = None,
) -> None:
    """Writes a dict of tensors as a safetensors file, or an array as a .npy file. All ranks call it; each writes its
    part.

    A tensor that several ranks have, with the same type, shape and elements (compared at 1024 places), is written by
    them together; one that a single rank has, by that one. The file is written beside `path`, made to last (fsync), and
    given its name: until then an earlier file stays as it is, whatever fails and whoever dies. `metadata`: texts by
    their names, the same on all ranks. `progress(done, total)` is called with the bytes of this rank's part.

    Errors are the same on every rank, and name the one that met it. ValueError: if ranks differ in a tensor's type,
    shape or elements, or `path` is no plain file. TypeError: for a tensor of a type that the file does not have.
    OSError: if it cannot be written.
    """
    check_group(comm)
    with CompositeCall(comm._fail, "save", alike=(Exception,)):
        _save(tensors, path, comm, metadata, progress)


def _save(
    tensors: Any,
    path: str | os.PathLike[str],
    comm: Communicator,
    metadata: Mapping[str, str] | None,
    progress: Progress,
) -> None:
    where, stage = Path(), JointStage(comm)
    single = not isinstance(tensors, Mapping)
    whole = {"": tensors} if single else tensors
    table: dict[str, tuple[str, Shape]] = {}
    texts: dict[str, str] | None = None
    with stage.attempt():
        where = Path(os.path.realpath(file_path(path)))
        check_progress(progress)
        table = _table(whole, named=not single)
        _check_target(where)
        texts = None if metadata is None else _checked_metadata(metadata)
        if single and texts:
            raise ValueError(f"{where}: metadata= beside an array, whose file has no room for it; expected a dict")
    kind, of_texts = digest_of(single), digest_of(repr(texts and sorted(texts.items())))
    stage.agree(where.name, path=digest_of(where.name), kind_of_file=kind, metadata=of_texts)
    tables = _exchanged(table, comm)
    written, digests = None, np.empty(0, np.int64)
    with stage.attempt():
        written = _planned(tables, where, texts, single)
        digests = _digests_of_replicas(written, whole)
    stage.agree(where.name)
    if not written:
        raise AssertionError("agree raises what the stage met")
    _check_replicas(written, digests, comm, where)
    token = int(comm.broadcast(np.frombuffer(os.urandom(8), np.int64).copy())[0])
    unfinished = unfinished_path(where, token)
    try:
        _write(unfinished, where, written, whole, comm, stage, progress)
    except BaseException:  # also Ctrl-C, and the end of another rank: whoever is left takes it away
        with suppress(OSError):
            unfinished.unlink()
        raise


def _write(
    unfinished: Path,
    where: Path,
    written: _Written,
    tensors: Mapping[str, Any],
    comm: Communicator,
    stage: JointStage,
    progress: Progress,
) -> None:
    descriptor = -1
    try:
        with stage.attempt():
            if comm.rank == 0:
                with _naming(where):
                    descriptor = _created(unfinished, where, written)
        stage.agree(where.name)
        with stage.attempt():
            if comm.rank != 0:
                with _naming(where):
                    descriptor = _joined(unfinished)
            for piece, at in _own_pieces(written, tensors, comm.rank, progress):
                with _naming(where):
                    _write_all(descriptor, piece, at)
            with _naming(where):
                os.fsync(descriptor)
        stage.agree(where.name)
        with stage.attempt():
            if comm.rank == 0:
                with _naming(where), _settled(where.parent):
                    if keep_access(descriptor, where):
                        os.fsync(descriptor)
                    os.rename(unfinished, where)
        stage.agree(where.name)
    finally:
        if descriptor >= 0:
            os.close(descriptor)


@contextmanager
def _naming(where: Path) -> Iterator[None]:
    """Raises the kernel's errors with the name of the file that is saved, which those of a descriptor do not have."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(where)) from error if error.strerror else None


def _table(tensors: Mapping[str, Any], named: bool) -> dict[str, tuple[str, Shape]]:
    """Type and shape of this rank's tensors."""
    found = {}
    for name, x in tensors.items():
        if not isinstance(name, str):
            raise TypeError(f"a tensor is named {name!r}; expected a text")
        _check_text(name, "a tensor is named")
        if name == METADATA:
            raise ValueError(f"a tensor is named {METADATA}; expected metadata= for texts")
        element = element_of(x, f"tensor {name!r}") if named else element_of(x, "the array", OF_NPY)
        found[name] = (element.name, tuple(int(n) for n in x.shape))
    return found


def _checked_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata is {metadata!r}; expected a dict of texts")
    for name, value in metadata.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"metadata {name!r} is {value!r}; expected texts")
        _check_text(name, "metadata is named")
        _check_text(value, f"metadata {name!r} is")
    return dict(metadata)


def _check_text(text: str, what: str) -> None:
    if not text.isascii() and text.encode(errors="replace").decode() != text:
        raise ValueError(f"{what} {text!r}, with half a character; expected UTF-8")


def _check_target(where: Path) -> None:
    if where.exists() and not stat.S_ISREG(where.stat().st_mode):
        raise ValueError(f"{where}: no plain file; expected one, or none, to write")
    if not where.parent.is_dir():
        raise ValueError(f"{where.parent}: no such folder; expected one for {where.name}")


def _exchanged(table: dict[str, tuple[str, Shape]], comm: Communicator) -> list[dict[str, tuple[str, Shape]]]:
    """All ranks' tables, in the order of ranks."""
    text = np.frombuffer(json.dumps(table).encode(), np.uint8)
    lengths = comm.all_gather(np.array([text.size], np.int64)).reshape(-1)
    texts = comm.all_gather_v(text, lengths).tobytes()
    ends = np.cumsum(lengths).tolist()
    expected = "what the header of one file may hold: save several files"
    read = [
        json_value(texts[end - n : end], f"the tensors of rank {rank}", expected, most=MOST_TABLE_BYTES)
        for rank, (n, end) in enumerate(zip(lengths.tolist(), ends, strict=True))
    ]
    return [{name: (of, tuple(shape)) for name, (of, shape) in each.items()} for each in read]


def _planned(
    tables: list[dict[str, tuple[str, Shape]]], where: Path, metadata: Mapping[str, str] | None, single: bool
) -> _Written:
    holders: dict[str, list[int]] = {}
    merged: dict[str, tuple[ElementType, Shape]] = {}
    for rank, table in enumerate(tables):
        for name, (element, shape) in table.items():
            here = (WRITTEN[element], shape)
            if merged.setdefault(name, here) != here:
                first = holders[name][0]
                raise ValueError(
                    f"{where.name}: tensor {name!r} is {merged[name][0].label} {merged[name][1]} on rank {first} and "
                    f"{here[0].label} {shape} on rank {rank}; expected the same"
                )
            holders.setdefault(name, []).append(rank)
    first_bytes, entries = npy_bytes(*merged[""]) if single else safetensors_bytes(merged, metadata)
    return _Written(first_bytes, entries, {name: tuple(ranks) for name, ranks in holders.items()})


def _digests_of_replicas(written: _Written, tensors: Mapping[str, Any]) -> NDArray[np.int64]:
    """A digest of this rank's part in each tensor that several ranks have; 0 where it has none."""
    names = [name for name, ranks in written.holders.items() if len(ranks) > 1]
    return np.array([digest_of(sampled_bytes(tensors[n])) if n in tensors else 0 for n in names], np.int64)


def _check_replicas(written: _Written, digests: NDArray[np.int64], comm: Communicator, where: Path) -> None:
    """ValueError, the same on every rank: if a tensor's elements differ from rank to rank, for each writes a share."""
    if not len(digests):
        return
    rows = comm.all_gather(digests)
    names = (name for name, ranks in written.holders.items() if len(ranks) > 1)
    for name, found in zip(names, rows.T, strict=True):
        first, *others = written.holders[name]
        if unlike := [rank for rank in others if found[rank] != found[first]]:
            raise ValueError(
                f"{where.name}: tensor {name!r} of rank {unlike[0]} has other elements than rank {first}'s; expected "
                "the same on all ranks that give it: let one rank give it, or each under a name of its own"
            )


def _created(unfinished: Path, where: Path, written: _Written) -> int:
    """The new file, as long as it will be, with the permissions of the one it replaces, and its owner's to write."""
    descriptor = create(unfinished)
    try:
        keep_access(descriptor, where, stat.S_IRUSR | stat.S_IWUSR)
        end = written.entries[-1].end if written.entries else len(written.first_bytes)
        os.posix_fallocate(descriptor, 0, end)
        _write_all(descriptor, memoryview(written.first_bytes), 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _joined(unfinished: Path) -> int:
    try:
        return os.open(unfinished, os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ValueError(f"{unfinished.parent}: not the folder of rank 0; expected one that all ranks share") from None


def _own_pieces(
    written: _Written, tensors: Mapping[str, Any], rank: int, progress: Progress
) -> Iterator[tuple[memoryview, int]]:
    """This rank's bytes and their places in the file. `progress` is called when a piece has been written."""
    parts = list(_parts(written, rank))
    done, total = 0, sum(end - begin for _, begin, end in parts)
    for entry, begin, end in parts:
        raw = memoryview(raw_bytes(tensors[entry.name]))
        for at in range(begin, end, PIECE_BYTES):
            piece = raw[at - entry.begin : min(at + PIECE_BYTES, end) - entry.begin]
            yield piece, at
            done += len(piece)
            if progress is not None:
                progress(done, total)


def _parts(written: _Written, rank: int) -> Iterator[tuple[Entry, int, int]]:
    """The tensors of which this rank writes something, and the bytes of the file that it does. A stretch of tensors
    that the same ranks have is cut evenly among them."""
    entries = [e for e in written.entries if e.end > e.begin]
    first = 0
    while first < len(entries):
        ranks, last = written.holders[entries[first].name], first
        while last + 1 < len(entries) and written.holders[entries[last + 1].name] == ranks:
            last += 1
        if rank in ranks:
            begin, end = entries[first].begin, entries[last].end
            share = -(-(end - begin) // len(ranks) // PAGE) * PAGE
            low = begin + share * ranks.index(rank)
            high = min(low + share, end)
            for entry in entries[first : last + 1]:
                if max(low, entry.begin) < min(high, entry.end):
                    yield entry, max(low, entry.begin), min(high, entry.end)
        first = last + 1


def _write_all(descriptor: int, data: memoryview, offset: int) -> None:
    while data:
        count = os.pwrite(descriptor, data, offset)
        data, offset = data[count:], offset + count


@contextmanager
def _settled(folder: Path) -> Iterator[None]:
    """Lets a name that is made in a folder last. The folder is opened before: one that may not be read fails while the
    file that was there is whole; one that cannot be synchronised has the new file anyway."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
