"""Loads on real processes, beside safetensors' own: the same bytes on every rank, and one error for all."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import ringtree
import ringtree.storage
from ringtree.runtime.arrays import dtype_named
from ringtree.storage.gathering import PIECE_BYTES
from tests.storage.files import caught, forget, plain, same, tensors, written

NAMED: dict[Any, Any] = {
    ml_dtypes.bfloat16: "bfloat16",
    "float32_int32": dtype_named("float32_int32"),
    "c8": "complex64",
    "torch.int64": "int64",
}
"""Element types of numpy's that other names stand for."""
LARGE = 2 * PIECE_BYTES * 2 + 12345
"""Two whole rounds of two ranks, and an odd rest."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("storage") / "model.safetensors"
    save_file(plain(tensors(large=LARGE)), path)
    return path


QUICK = [(1, None), (2, "private"), (2, "mapped"), (3, None), (3, "symmetric")]
"""Each memory, and each number of ranks."""


@pytest.mark.parametrize(
    ("ranks", "memory"),
    [
        pytest.param(ranks, memory, marks=[] if (ranks, memory) in QUICK else pytest.mark.slow)
        for ranks in (1, 2, 3)
        for memory in (None, "private", "symmetric", "mapped")
    ],
)
def test_every_rank_gets_what_safetensors_loads(file: Path, ranks: int, memory: str) -> None:
    def work(comm: Any) -> list[bool]:
        found = []
        for direct in (None, True, False):
            comm.barrier()
            forget(file)
            loaded = ringtree.storage.load(file, comm, memory=memory, direct=direct)
            found.append(same(loaded, load_file(file)))
            for x in loaded.values():
                x[...] = 0  # its own, to write to
            found.append(all(not x.view(np.uint8).any() for x in loaded.values() if x.ndim))
            comm.barrier()
        return [*found, same(load_file(file), plain(tensors(large=LARGE)))]

    assert ringtree.spawn(work, ranks, timeout_s=60) == [[True] * 7] * ranks


def test_what_is_written_on_one_rank_stays_there(file: Path) -> None:
    def work(comm: Any) -> list[int]:
        seen = []
        for memory in ("private", "symmetric", "mapped"):
            large = ringtree.storage.load(file, comm, memory=memory)["large"]
            large[7] = 100 + comm.rank
            comm.barrier()
            seen.append(int(large[7]))
        return seen

    assert ringtree.spawn(work, 2, timeout_s=60) == [[100] * 3, [101] * 3]


def test_symmetric_tensors_are_read_by_peers_in_place(file: Path) -> None:
    def work(comm: Any) -> bool:
        large = ringtree.storage.load(file, comm, memory="symmetric")["large"]
        if comm.rank == 1:
            large[:] = 5
        comm.barrier()
        return bool((comm.get(large, 1) == 5).all())

    assert ringtree.spawn(work, 2, timeout_s=60) == [True, True]


@pytest.mark.parametrize("memory", ["private", "symmetric", "mapped"])
def test_names_and_shards_are_what_is_loaded(file: Path, memory: str) -> None:
    def work(comm: Any) -> list[bool]:
        whole = load_file(file)
        some = ringtree.storage.load(file, comm, memory=memory, names=["scalar", "of.int64", "empty"])
        chosen = ringtree.storage.load(file, comm, memory=memory, names=lambda name: name.startswith("of."))
        begin, end = comm.rank * LARGE // 2, (comm.rank + 1) * LARGE // 2
        rows = {"large": slice(begin, end), "of.float32": slice(2, 4), "of.int16": slice(4, 1)}
        wants = dict(whole, **{name: whole[name][of] for name, of in rows.items()})
        parts = ringtree.storage.load(file, comm, memory=memory, shard=rows)
        called = ringtree.storage.load(file, comm, memory=memory, shard=lambda name, shape: rows.get(name))
        return [
            same(some, {name: whole[name] for name in some}) and len(some) == 3,
            same(chosen, {k: v for k, v in whole.items() if k.startswith("of.")}),
            same(parts, wants),
            same(called, wants),
        ]

    assert ringtree.spawn(work, 2, timeout_s=60) == [[True] * 4] * 2


def test_numpys_files_and_raw_ones_are_one_array(tmp_path: Path) -> None:
    arrays = {
        "plain": np.arange(24, dtype=np.float64).reshape(2, 3, 4),
        "fortran": np.asfortranarray(np.arange(24, dtype=np.int16).reshape(2, 3, 4)),
        "swapped": np.arange(5, dtype=">f4"),
        "empty": np.zeros((0, 3), np.complex128),
        "scalar": np.array(7, np.uint8),
    }
    for name, x in arrays.items():
        np.save(tmp_path / f"{name}.npy", x)
    arrays["fortran"].tofile(tmp_path / "raw")

    def work(comm: Any) -> bool:
        for name, x in arrays.items():
            for memory in ("private", "symmetric", "mapped"):
                found = ringtree.storage.load(tmp_path / f"{name}.npy", comm, memory=memory)
                assert found.dtype == x.dtype and found.shape == x.shape and (found == x).all(), (name, memory)
        raw = ringtree.storage.load(tmp_path / "raw", comm, dtype="int16", shape=(2, -1, 4))
        assert (raw == arrays["fortran"].ravel("C").reshape(2, 3, 4)).all()
        bits = raw.ravel().tobytes()
        for dtype in ("bfloat16", ml_dtypes.bfloat16, "float8_e4m3fn", "float32_int32", "c8", "torch.int64"):
            found = ringtree.storage.load(tmp_path / "raw", comm, dtype=dtype, shape=-1)
            assert str(found.dtype) == str(NAMED.get(dtype, dtype)) and found.tobytes() == bits, dtype
        rows = ringtree.storage.load(tmp_path / "plain.npy", comm, shard=slice(comm.rank, comm.rank + 1))
        return bool((rows == arrays["plain"][comm.rank : comm.rank + 1]).all())

    assert ringtree.spawn(work, 2, timeout_s=60) == [True, True]


def test_a_shard_of_rows_that_are_none_has_its_reason(tmp_path: Path) -> None:
    arrays = {"fortran": np.asfortranarray(np.zeros((4, 3))), "scalar": np.array(7.0)}
    for name, x in arrays.items():
        np.save(tmp_path / f"{name}.npy", x)

    def work(comm: Any) -> list[str]:
        load = partial(ringtree.storage.load, comm=comm, shard=slice(0, 2))
        return [caught(partial(load, tmp_path / f"{name}.npy")) for name in arrays]

    expected = [
        "fortran.npy: slice(0, 2, None) of tensor '': it lies in Fortran's order, in which rows are not consecutive; "
        "save it in C's order (numpy.ascontiguousarray), or load it without shard=",
        "scalar.npy: slice(0, 2, None) of tensor '', which has no axis; expected no shard of it",
    ]
    for found in ringtree.spawn(work, 2, timeout_s=60):
        assert found == [f"ValueError: {tmp_path}/{text}" for text in expected]


def test_arguments_that_are_none_are_one_line_on_every_rank(file: Path, tmp_path: Path) -> None:
    np.arange(10, dtype="f4").tofile(tmp_path / "raw")

    def work(comm: Any) -> list[str]:
        def of(path: Path, **options: Any) -> str:
            return caught(partial(ringtree.storage.load, path, comm, **options))

        raw = tmp_path / "raw"
        return [
            *(of(file, **options) for options in ({"names": 5}, {"names": ["none", 1]}, {"shard": ["large"]})),
            of(file, shard=slice(1)),
            *(of(file, shape=shape) for shape in (np.array([2, 3]), 3)),
            of(file, memory=""),
            of(file, shard={"large": slice(0.5)}),
            *(of(raw, dtype="f4", shape=shape) for shape in ("10", (2.5, 4), (-2, 5), 11)),
            *(of(raw, dtype=dtype) for dtype in ("none", "O")),
        ]

    shards = "expected a dict of slices by name, or a function of name, shape"
    lengths = "expected lengths, of which one may be -1"
    expected = [
        "TypeError: names is 5; expected a list of names, or a function of one",
        f"ValueError: {file}: no tensor 'none'; expected names of its",
        f"TypeError: {file}: shard is ['large']; {shards}",
        f"TypeError: {file}: shard is slice(None, 1, None); {shards}",
        "TypeError: shape is array([2, 3]); expected dtype= with it, of a file that is elements and nothing else",
        "TypeError: shape is 3; expected dtype= with it, of a file that is elements and nothing else",
        "ValueError: memory is ''; expected one of private, symmetric, mapped",
        f"TypeError: {file}: slice(None, 0.5, None) of tensor 'large'; expected whole numbers",
        f"TypeError: {tmp_path}/raw: shape is '10'; {lengths}",
        f"TypeError: {tmp_path}/raw: shape is (2.5, 4); {lengths}",
        f"ValueError: {tmp_path}/raw: 40 bytes; expected an array of shape (-2, 5) of float32, 4 bytes each",
        f"ValueError: {tmp_path}/raw: 40 bytes; expected an array of shape 11 of float32, 4 bytes each",
        "TypeError: element type 'none' is not known; expected a name as float32, bfloat16",
        "TypeError: element type object is not supported; expected one of bool, ",
    ]
    for found in ringtree.spawn(work, 2, timeout_s=60):
        for line, begin in zip(found, expected, strict=True):
            assert line.startswith(begin) and "\n" not in line


def test_tensors_at_odd_places_come_aligned(tmp_path: Path) -> None:
    """A writer other than safetensors' may leave them so."""
    x = np.arange(6, dtype=np.float64)
    entries = {
        "odd": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
        "x": {"dtype": "F64", "shape": [6], "data_offsets": [3, 51]},
    }
    path = written(tmp_path / "odd.safetensors", entries, b"\1\2\3" + x.tobytes(), pad=False)

    def work(comm: Any) -> list[bool]:
        found = [ringtree.storage.load(path, comm, memory=memory)["x"] for memory in ("private", "mapped")]
        return [bool(f.flags.aligned and (f == x).all()) for f in found]

    assert ringtree.spawn(work, 2, timeout_s=60) == [[True, True]] * 2


def test_one_rank_s_short_file_is_every_rank_s_error(file: Path, tmp_path: Path) -> None:
    whole = file.read_bytes()
    for rank in range(3):
        (tmp_path / f"{rank}").mkdir()
        (tmp_path / f"{rank}" / "m").write_bytes(whole if rank != 1 else whole[:-1])

    def work(comm: Any) -> str:
        return caught(lambda: ringtree.storage.load(tmp_path / str(comm.rank) / "m", comm))

    expected = f"ValueError: rank 1: {tmp_path}/1/m: cut short: {len(whole) - 1:,} bytes; expected {len(whole):,}"
    assert ringtree.spawn(work, 3, timeout_s=60) == [expected] * 3


def test_a_file_that_shrinks_while_it_is_read_is_every_rank_s_error(file: Path, tmp_path: Path) -> None:
    """Rank 1's copy loses its end after the first pieces have come; the reads of the rest find that."""
    whole = file.read_bytes()
    for rank in range(2):
        (tmp_path / str(rank)).write_bytes(whole)

    def work(comm: Any) -> str:
        own = tmp_path / str(comm.rank)
        os.chdir(tmp_path)  # the same name of two files
        os.mkdir(str(comm.rank) + ".d")
        os.chdir(str(comm.rank) + ".d")
        os.link(own, "m")

        def shrink(done: int, total: int) -> None:
            if comm.rank == 1:
                os.truncate(own, 3 * PIECE_BYTES // 2)

        return caught(lambda: ringtree.storage.load("m", comm, memory="private", direct=False, progress=shrink))

    found = ringtree.spawn(work, 2, timeout_s=60)
    assert found[0] == found[1] and "rank 1: m: it ended at byte" in found[0]


def test_ranks_that_ask_for_different_things_all_hear_of_it(file: Path, tmp_path: Path) -> None:
    other = tmp_path / file.name
    save_file({"x": np.zeros(3)}, other)
    step = tmp_path / "step"
    step.mkdir()
    changed = plain(tensors(large=LARGE))
    changed["large"] = changed["large"] + np.uint8(1)
    save_file(changed, step / file.name)  # with the same header

    def work(comm: Any) -> list[str]:
        load = ringtree.storage.load
        return [
            caught(lambda: load(other if comm.rank else file, comm, memory="private")),
            caught(lambda: load(step / file.name if comm.rank else file, comm)),
            caught(lambda: load(file, comm, names=["scalar"] if comm.rank else None)),
            caught(lambda: load(file, comm, memory="mapped" if comm.rank else "private")),
            caught(lambda: load(file, comm, memory="mapped" if comm.rank else "own")),
            caught(lambda: load(file, comm, names=["none"])),
        ]

    differ = "Mismatch: model.safetensors: ranks 0 and 1 differ in {}; expected the same on all ranks"
    expected = [
        *(differ.format(what) for what in ("files", "files", "wanted tensors", "memory")),
        "ValueError: rank 0: memory is 'own'; expected one of private, symmetric, mapped",
        f"ValueError: {file}: no tensor 'none'; expected names of its {len(load_file(file))}",
    ]
    assert ringtree.spawn(work, 2, timeout_s=60) == [expected] * 2


def test_more_than_the_memory_is_refused(tmp_path: Path) -> None:
    """A file of nothing but a hole, longer than any machine's memory: the kernel would end the ranks."""
    nbytes = 1 << 43
    path = written(tmp_path / "hole", {"x": {"dtype": "U8", "shape": [nbytes], "data_offsets": [0, nbytes]}})
    os.truncate(path, path.stat().st_size + nbytes)

    def work(comm: Any) -> list[str]:
        return [caught(partial(ringtree.storage.load, path, comm, memory=m)) for m in ("private", "symmetric")]

    for private, symmetric in ringtree.spawn(work, 2, timeout_s=60):
        assert private.startswith("MemoryError: ") and "memory='mapped' shares one copy" in private
        assert symmetric.startswith("MemoryError: no room for") and "\n" not in symmetric


def test_a_mapped_file_may_be_longer_than_the_memory(tmp_path: Path) -> None:
    """It is read where it is used; and part of it is read as ever."""
    nbytes = 1 << 43
    path = written(tmp_path / "hole", {"x": {"dtype": "U8", "shape": [nbytes], "data_offsets": [0, nbytes]}})
    begin = path.stat().st_size
    with path.open("r+b") as hole:
        hole.truncate(begin + nbytes)
        hole.seek(begin + nbytes - 3)
        hole.write(b"end")

    def work(comm: Any) -> list[bytes]:
        seen: list[tuple[int, int]] = []
        whole = ringtree.storage.load(path, comm, memory="mapped", progress=lambda *at: seen.append(at))["x"]
        part = ringtree.storage.load(path, comm, memory="mapped", shard={"x": slice(nbytes - 3, None)})["x"]
        assert [done == total for done, total in seen] == [True]
        whole[7] = 1
        return [whole[-3:].tobytes(), part.tobytes()]

    assert ringtree.spawn(work, 2, timeout_s=60) == [[b"end", b"end"]] * 2


def test_progress_counts_bytes_up_to_all(file: Path) -> None:
    def work(comm: Any) -> dict[str, list[tuple[int, int]]]:
        seen: dict[str, list[tuple[int, int]]] = {}
        for memory in ("private", "mapped"):
            of = seen[memory] = []
            comm.barrier()
            forget(file)
            comm.barrier()
            ringtree.storage.load(file, comm, memory=memory, progress=lambda *at, of=of: of.append(at))
        return seen

    for of in ringtree.spawn(work, 2, timeout_s=60):
        for seen in of.values():
            done = [d for d, _ in seen]
            assert done == sorted(done) and len(seen) >= 2 and done[-1] == seen[-1][1] >= LARGE


def test_a_rank_that_dies_in_a_load_fails_the_others(file: Path) -> None:
    def work(comm: Any) -> str:
        def end(done: int, total: int) -> None:
            if comm.rank == 1:
                os._exit(3)

        return caught(lambda: ringtree.storage.load(file, comm, memory="private", progress=end))

    with pytest.raises(ringtree.RankFailed) as failed:
        ringtree.spawn(work, 2, timeout_s=60)
    assert failed.value.rank == 1


@pytest.mark.parametrize("memory", ["private", "symmetric", "mapped"])
def test_an_error_of_a_caller_s_function_is_every_rank_s_and_the_group_goes_on(file: Path, memory: str) -> None:
    def work(comm: Any) -> list[str]:
        def end(*of: Any) -> bool:
            if comm.rank == 1:
                raise LookupError("mine")
            return True

        load = partial(ringtree.storage.load, file, comm, memory=memory)
        found = [caught(partial(load, **{name: end})) for name in ("progress", "names", "shard")]
        found.append(caught(lambda: ringtree.storage.load(None if comm.rank else file, comm, memory=memory)))
        return [*found, str(comm.all_reduce(np.ones(1))[0])]

    lookup = "RuntimeError: rank 1: LookupError: mine"
    rows = f"ValueError: rank 0: {file}: True of tensor 'scalar'; expected slice(begin, end) of its first axis"
    path = "TypeError: rank 1: path is None; expected the name of a file"
    for found in ringtree.spawn(work, 2, timeout_s=60):
        assert found[:2] == [lookup] * 2 and found[3:] == [path, "2.0"]
        assert found[2].startswith(rows.split("'")[0])


@pytest.mark.parametrize("call", ["load", "save"])
def test_an_argument_of_another_kind_is_named(tmp_path: Path, call: str) -> None:
    def act(path: Any, comm: Any, **options: Any) -> str:
        x = [{}] if call == "save" else []
        return caught(lambda: getattr(ringtree.storage, call)(*x, path, comm, **options))

    def work(comm: Any) -> list[str]:
        return [act("", comm), act(3, comm), act(tmp_path / "m", comm, progress=3), str(int(comm.all_reduce(1)))]

    assert act("m", None) == "TypeError: comm is None; expected a communicator, such as ringtree.init() returns"
    assert (
        ringtree.spawn(work, 2, timeout_s=60)
        == [
            [
                "ValueError: path is empty; expected the name of a file",
                "TypeError: path is an int; expected the name of a file",
                "TypeError: progress is an int; expected a function of bytes, (done, total)",
                "2",
            ]
        ]
        * 2
    )
