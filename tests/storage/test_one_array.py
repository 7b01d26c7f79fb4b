"""Files of one array: numpy's .npy, and raw ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ringtree
import ringtree.storage
from ringtree.files.file_bytes import opened
from ringtree.storage.header import read_header
from ringtree.storage.loading import MEMORIES
from tests.storage.files import caught


@pytest.mark.parametrize("names", [[], [""], lambda name: name.startswith("w")])
def test_names_of_an_array_are_refused(tmp_path: Path, names: Any) -> None:
    path, x = tmp_path / "x.npy", np.arange(6.0)
    np.save(path, x)

    def work(comm: Any) -> list[str]:
        load = ringtree.storage.load
        refused = [
            caught(lambda: load(path, comm, names=names)),
            caught(lambda: load(path, comm, names=names, dtype="uint8")),
        ]
        assert (load(path, comm) == x).all()
        return refused

    refused = f"ValueError: {path}: names= of a file of one array, which has no name; expected none, or shard= for rows"
    assert ringtree.spawn(work, 2, timeout_s=60) == [[refused] * 2] * 2


def test_metadata_beside_an_array_is_refused(tmp_path: Path) -> None:
    path, x = tmp_path / "x.npy", np.arange(6.0)

    def work(comm: Any) -> str:
        refused = caught(lambda: ringtree.storage.save(x, path, comm, metadata={"author": "me"}))
        assert not path.exists()
        ringtree.storage.save(x, path, comm, metadata={})
        return refused

    refused = f"ValueError: {path}: metadata= beside an array, whose file has no room for it; expected a dict"
    assert ringtree.spawn(work, 2, timeout_s=60) == [refused] * 2


def _npy(path: Path, header: str, version: bytes = b"\x01\x00") -> Path:
    text = header.encode() + b"\n"
    length = len(text).to_bytes(2 if version[0] == 1 else 4, "little")
    path.write_bytes(b"\x93NUMPY" + version + length + text + np.arange(6.0).tobytes())
    return path


@pytest.mark.parametrize(
    ("header", "version"),
    [
        ("{'descr': '<f8', 'fortran_order': 1, 'shape': (2, 3)}", b"\x01\x00"),
        ("{'descr': '<f8', 'fortran_order': None, 'shape': (2, 3)}", b"\x01\x00"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), 'x': 1}", b"\x01\x00"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3)}", b"\x01\x09"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (2L, 3L)}", b"\x03\x00"),
    ],
)
def test_what_numpy_refuses_is_refused(tmp_path: Path, header: str, version: bytes) -> None:
    path = _npy(tmp_path / "x.npy", header, version)
    with pytest.raises(ValueError, match=r"\S"):
        np.load(path)
    with opened(path, "a file") as file, pytest.raises(ValueError, match=r"expected a \.npy file of numbers"):
        read_header(file, path)


@pytest.mark.filterwarnings("ignore:Reading .* required additional header parsing")
def test_lengths_as_python_2_wrote_them_are_read(tmp_path: Path) -> None:
    path = _npy(tmp_path / "x.npy", "{'descr': '<f8', 'fortran_order': True, 'shape': (2L, 3L), }")
    with opened(path, "a file") as file:
        (entry,) = read_header(file, path).entries
    assert entry.shape == np.load(path).shape == (2, 3) and entry.transposed


def test_a_file_with_bytes_but_no_length_is_refused() -> None:
    def work(comm: Any) -> list[str]:
        load = partial(ringtree.storage.load, "/proc/version", comm, dtype="u1")
        return [caught(partial(load, memory=memory)) for memory in MEMORIES]

    refused = "ValueError: /proc/version: has bytes, but no length, as files of /proc; expected a plain file"
    assert ringtree.spawn(work, 2, timeout_s=60) == [[refused] * len(MEMORIES)] * 2
