"""Saves on real processes, beside safetensors' own: the same file byte for byte, as a whole or not at all."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save, save_file

import ringtree
import ringtree.storage
from ringtree.files import json_values
from ringtree.storage import header
from ringtree.storage.gathering import PIECE_BYTES
from tests.storage.files import caught, plain, same, tensors

LARGE = 3 * PIECE_BYTES + 777


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_file_is_safetensors_own(tmp_path: Path, ranks: int) -> None:
    path, whole = tmp_path / "m.safetensors", plain(tensors(large=LARGE))

    def work(comm: Any) -> bool:
        ringtree.storage.save(whole, path, comm, metadata={"format": "ü"})
        return same(ringtree.storage.load(path, comm), load_file(path))

    assert ringtree.spawn(work, ranks, timeout_s=60) == [True] * ranks
    assert path.read_bytes() == save(whole, {"format": "ü"}) and os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("shape", [(), (3,), (300, 1000)])
def test_replicas_that_differ_are_not_blended(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(b"before")

    def work(comm: Any) -> str:
        own = {} if comm.rank == 0 else {"mean": np.full(shape, comm.rank, np.float32).T}
        return caught(lambda: ringtree.storage.save(own | {"same": np.ones(5)}, path, comm))

    words = "m.safetensors: tensor 'mean' of rank 2 has other elements than rank 1's"
    assert [words in error for error in ringtree.spawn(work, 3, timeout_s=60)] == [True] * 3
    assert path.read_bytes() == b"before" and os.listdir(tmp_path) == [path.name]


def test_every_type_comes_back(tmp_path: Path) -> None:
    path, whole = tmp_path / "m.safetensors", tensors()
    whole["strided"], whole["swapped"] = np.arange(24).reshape(4, 6).T[::2], np.arange(3, dtype=">i4")

    def work(comm: Any) -> bool:
        ringtree.storage.save(whole, path, comm)
        whole["swapped"] = whole["swapped"].astype("i4")
        return same(ringtree.storage.load(path, comm), whole)

    assert ringtree.spawn(work, 2, timeout_s=60) == [True, True]


def test_tensors_of_some_ranks_are_in_the_file_of_all(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    whole = {f"layer.{k}": np.full(1000 + k, k, np.float32) for k in range(4)} | {"all": np.arange(50_000.0)}
    whole["most"] = np.arange(5)

    def work(comm: Any) -> None:
        own = {name: x for name, x in whole.items() if name in ("all", f"layer.{comm.rank}", f"layer.{comm.rank + 3}")}
        ringtree.storage.save(own | ({"most": whole["most"]} if comm.rank else {}), path, comm)

    ringtree.spawn(work, 3, timeout_s=60)
    assert same(load_file(path), whole)


def test_an_array_is_a_file_of_numpys(tmp_path: Path) -> None:
    x = np.asfortranarray(np.arange(600_000, dtype=np.int16).reshape(100, -1))

    def work(comm: Any) -> list[str]:
        ringtree.storage.save(x, tmp_path / "x.npy", comm)
        short = np.zeros(3, ml_dtypes.bfloat16)
        return [caught(lambda: ringtree.storage.save(short, tmp_path / "y.npy", comm))]

    refused = "TypeError: the array is of bfloat16; expected an array or a tensor of one of bool, uint8, "
    assert all(line.startswith(refused) for [line] in ringtree.spawn(work, 2, timeout_s=60))
    assert (np.load(tmp_path / "x.npy") == x).all() and os.listdir(tmp_path) == ["x.npy"]
    whole = np.arange(3) * 1j
    ringtree.spawn(partial(ringtree.storage.save, whole, tmp_path / "x.npy"), 2, timeout_s=60)
    assert np.load(tmp_path / "x.npy").tobytes() == whole.tobytes()


@pytest.mark.parametrize(
    ("tensors", "refused"),
    [
        (1_000, "ValueError: a header of 1,000 tensors in "),
        (1_200, "ValueError: the tensors of rank 1: more than 40,000 values; expected "),
    ],
)
def test_a_file_that_load_would_refuse_is_not_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tensors: int, refused: str
) -> None:
    for module in (header, json_values):
        monkeypatch.setattr(module, "MOST_VALUES", 40_000)
    x = np.zeros((0, *[1] * 31), np.uint8)  # as many values in a header as three arrays of one dimension

    def work(comm: Any) -> str:
        held = {str(k): x for k in range(tensors if comm.rank else 1)}
        return caught(lambda: ringtree.storage.save(held, tmp_path / "m", comm))

    lines = ringtree.spawn(work, 2, timeout_s=60)
    assert all(line.startswith(refused) and "save several files" in line for line in lines)
    assert not os.listdir(tmp_path)


def test_a_name_keeps_its_permissions_and_its_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"earlier")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    ringtree.spawn(lambda comm: ringtree.storage.save({"x": np.ones(3)}, tmp_path / "link", comm), 2, timeout_s=60)
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").stat().st_mode & 0o777 == 0o640
    assert same(load_file(tmp_path / "real"), {"x": np.ones(3)})


def test_what_cannot_be_saved_is_one_error_for_all(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    good = {"x": np.ones(3)}

    def work(comm: Any) -> list[str]:
        def refused(of: Any, path: Path = tmp_path / "m", **options: Any) -> str:
            return caught(lambda: ringtree.storage.save(of, path, comm, **options))

        return [
            refused(good if comm.rank else {"x": np.ones(4)}),
            refused(good if comm.rank else {"x": np.ones(3, np.int8)}),
            refused(good if comm.rank else {"x": [1, 2]}),
            refused({"x": np.array(["a"])}),
            refused({3: np.ones(3)}),
            refused({"__metadata__": np.ones(3)}),
            refused(good, tmp_path / "pipe"),
            refused(good, tmp_path),
            refused(good, tmp_path / "none" / "m"),
            refused(good, metadata={"rank": str(comm.rank)}),
            refused(good, metadata={"rank": 1}),
            refused(good if comm.rank else good["x"]),
            refused(good if comm.rank else {"x": np.ma.ones(3)}),
            refused({"x": np.float32(1)}),
            refused({"\ud800": np.ones(3)}),
            refused(good, metadata={"a": "\ud800"}),
            refused(good, metadata=["a"] if comm.rank else None),
        ]

    found = ringtree.spawn(work, 2, timeout_s=60)
    assert found[0] == found[1]
    types = "expected an array or a tensor of one of bool, uint8, "
    for line, expected in zip(
        found[0],
        [
            "ValueError: m: tensor 'x' is float64 (4,) on rank 0 and float64 (3,) on rank 1; expected the same",
            "ValueError: m: tensor 'x' is int8 (3,) on rank 0 and float64 (3,) on rank 1; expected the same",
            f"TypeError: rank 0: tensor 'x' is a list; {types}",
            f"TypeError: tensor 'x' is of <U1; {types}",
            "TypeError: a tensor is named 3; expected a text",
            "ValueError: a tensor is named __metadata__; expected metadata= for texts",
            f"ValueError: {tmp_path}/pipe: no plain file; expected one, or none, to write",
            f"ValueError: {tmp_path}: no plain file; expected one, or none, to write",
            f"ValueError: {tmp_path}/none: no such folder; expected one for m",
            "Mismatch: m: ranks 0 and 1 differ in metadata; expected the same on all ranks",
            "TypeError: metadata 'rank' is 1; expected texts",
            "Mismatch: m: ranks 0 and 1 differ in kind of file; expected the same on all ranks",
            "TypeError: rank 0: tensor 'x' is a masked array; expected an array without a mask: x.filled()",
            f"TypeError: tensor 'x' is a float32; {types}",
            "ValueError: a tensor is named '\\ud800', with half a character; expected UTF-8",
            "ValueError: metadata 'a' is '\\ud800', with half a character; expected UTF-8",
            "TypeError: rank 1: metadata is ['a']; expected a dict of texts",
        ],
        strict=True,
    ):
        assert line.startswith(expected) and "\n" not in line
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_full_disk_leaves_the_earlier_file(tmp_path: Path) -> None:
    """A limit of the length of files stands for the disk."""
    import resource

    path = tmp_path / "m"
    save_file({"x": np.ones(3)}, path)

    def work(comm: Any) -> str:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        if comm.rank == 1:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        return caught(lambda: ringtree.storage.save({"x": np.zeros(1 << 20)}, path, comm))

    assert ringtree.spawn(work, 2, timeout_s=60) == [f"OSError: rank 1: {path}: File too large"] * 2
    assert same(load_file(path), {"x": np.ones(3)}) and os.listdir(tmp_path) == ["m"]


@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_dies_leaves_the_earlier_file(tmp_path: Path, victim: int) -> None:
    path = tmp_path / "m"
    save_file({"x": np.ones(3)}, path)

    def work(comm: Any) -> None:
        def end(done: int, total: int) -> None:
            if comm.rank == victim:
                assert [name for name in os.listdir(tmp_path) if name.endswith(".unfinished")]
                os.kill(os.getpid(), signal.SIGKILL)

        line = caught(
            lambda: ringtree.storage.save({"x": np.zeros(3 * PIECE_BYTES, np.uint8)}, path, comm, progress=end)
        )
        (tmp_path / "heard").write_text(line)

    with pytest.raises(ringtree.RankFailed) as failed:
        ringtree.spawn(work, 2, timeout_s=60)
    assert failed.value.rank == victim
    heard = tmp_path / "heard"
    assert heard.read_text().startswith(f"PeerDied: rank {victim} died")
    heard.unlink()
    assert same(load_file(path), {"x": np.ones(3)}) and os.listdir(tmp_path) == ["m"]


def test_readers_meet_one_file_or_the_other(tmp_path: Path) -> None:
    """While files of one name are written again and again, every load finds a whole one."""
    path = tmp_path / "m"
    save_file({"x": np.zeros(100_000)}, path)

    def work(comm: Any) -> bool:
        group = comm.group([comm.rank // 2 * 2, comm.rank // 2 * 2 + 1])
        for k in range(1, 30):
            if comm.rank < 2:
                ringtree.storage.save({"x": np.full(100_000, float(k))}, path, group)
            else:
                found = load_file(path)["x"]
                assert found.shape == (100_000,) and (found == found[0]).all()
        return True

    assert ringtree.spawn(work, 4, timeout_s=60) == [True] * 4


def test_a_file_that_nobody_may_write_is_replaced_with_its_permissions() -> None:
    """Every rank opens the new file, which is its owner's to write until then, and no more than the earlier one's to
    others."""
    with TemporaryDirectory() as folder:  # one that other users reach
        Path(folder).chmod(0o777)
        path = Path(folder) / "m"

        def work(comm: Any) -> str:
            seen = []

            def look(done: int, total: int) -> None:
                seen.extend(f"{p.stat().st_mode & 0o777:o}" for p in Path(folder).glob(".m.*"))

            ringtree.storage.save({"x": np.ones(3)}, Path(folder) / "before", comm)
            comm.barrier()
            if os.getuid() == 0:  # root may write all files
                os.setuid(65534)
            if comm.rank == 0:
                path.touch()
                path.chmod(0o400)
            comm.barrier()
            line = caught(lambda: ringtree.storage.save({"x": np.zeros(3)}, path, comm, progress=look))
            return f"{line}; {path.stat().st_mode & 0o777:o}, {seen if comm.rank == 0 else []}"

        assert ringtree.spawn(work, 2, timeout_s=60) == ["no error; 400, ['600']", "no error; 400, []"]


def test_a_long_name_has_room_for_the_unfinished_file_s(tmp_path: Path) -> None:
    """255 bytes are the most of a name; characters may be of several."""
    for name in ("模" * 85, "a" * 255):
        path = tmp_path / name
        ringtree.spawn(partial(ringtree.storage.save, {"x": np.ones(3)}, path), 2, timeout_s=60)
        assert same(load_file(path), {"x": np.ones(3)})


def test_an_error_of_a_caller_s_function_is_every_rank_s_and_the_group_goes_on(tmp_path: Path) -> None:
    def work(comm: Any) -> list[str]:
        def end(done: int, total: int) -> None:
            if comm.rank == 1:
                raise KeyError("mine")

        found = [caught(lambda: ringtree.storage.save({"x": np.ones(10_000)}, tmp_path / "m", comm, progress=end))]
        found.append(caught(lambda: ringtree.storage.save({}, None if comm.rank else tmp_path / "m", comm)))
        return [*found, str(comm.all_reduce(np.ones(1))[0])]

    path = "TypeError: rank 1: path is None; expected the name of a file"
    assert ringtree.spawn(work, 2, timeout_s=60) == [["RuntimeError: rank 1: KeyError: 'mine'", path, "2.0"]] * 2
    assert not os.listdir(tmp_path)


def test_a_folder_that_may_not_be_read_keeps_the_earlier_file() -> None:
    """Its name could not be made to last, which is found before the file is replaced."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "m"

        def work(comm: Any) -> str:
            ringtree.storage.save({"x": np.ones(3)}, path, comm)
            if comm.rank == 0:
                path.chmod(0o666)
                Path(folder).chmod(0o333)
            comm.barrier()
            if os.getuid() == 0:  # root may read all folders
                os.setuid(65534)
            return caught(lambda: ringtree.storage.save({"x": np.zeros(3)}, path, comm))

        found = ringtree.spawn(work, 2, timeout_s=60)
        assert all("Permission denied" in line for line in found), found
        assert ringtree.spawn(lambda comm: float(ringtree.storage.load(path, comm)["x"][0]), 1) == [1.0]
        assert [file.name for file in Path(folder).iterdir()] == ["m"]
