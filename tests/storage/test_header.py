"""Headers of files that anybody may have written."""

from __future__ import annotations

import gc
import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError, deserialize

import ringtree
import ringtree.storage
from ringtree.files.file_bytes import opened
from ringtree.storage.elements import ELEMENTS
from ringtree.storage.header import LONG_HEADER_BYTES, Header, read_header, safetensors_bytes
from tests.storage.files import caught, written

X = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}
"""A tensor of four bytes."""


def read(path: Path) -> Header:
    with opened(path, "a safetensors file") as file:
        return read_header(file, path)


@pytest.mark.parametrize(
    ("entries", "data", "expected"),
    [
        ({"x": X}, b"abc", "cut short: {size} bytes; expected {more}"),
        ({"x": X}, b"abcde", "longer than its header states: {size} bytes; expected {less}"),
        (
            {"x": X, "y": X},
            b"abcd",
            "tensor 'y' overlaps the tensor before; expected it to begin at byte 4 of the data",
        ),
        ({"x": dict(X, data_offsets=[1, 5])}, b"abcde", "tensor 'x' leaves a hole before it; expected it to begin"),
        ({"x": dict(X, data_offsets=[4, 0])}, b"abcd", r"tensor 'x' has data_offsets \[4, 0\]; expected its begin"),
        ({"x": dict(X, data_offsets=[-4, 0])}, b"", r"tensor 'x' has data_offsets \[-4, 0\]; expected its begin"),
        ({"x": dict(X, data_offsets=[0])}, b"", r"tensor 'x' has data_offsets \[0\]; expected its begin and its end"),
        ({"x": dict(X, data_offsets=[0, 1 << 63])}, b"", r"tensor 'x' has data_offsets \[0, 9223372036854775808\];"),
        (
            {"x": dict(X, data_offsets=[0, 1 << 60], shape=[1 << 60])},
            b"a",
            "cut short: {size} bytes; expected 1,152,",
        ),
        ({"x": dict(X, shape=[1 << 59, 8])}, b"abcd", "tensor 'x' has 4 bytes; expected shape .* of U8, 1 bytes each"),
        ({"x": dict(X, shape=[3])}, b"abcd", r"tensor 'x' has 4 bytes; expected shape \[3\] of U8, 1 bytes each"),
        (
            {"x": dict(X, shape=[4.0])},
            b"abcd",
            r"tensor 'x' has shape \[4.0\]; expected at most 64 lengths of 0 or more",
        ),
        ({"x": dict(X, shape=[True] * 4)}, b"abcd", "tensor 'x' has shape .*; expected at most 64 lengths"),
        ({"x": dict(X, shape=[-4])}, b"abcd", r"tensor 'x' has shape \[-4\]; expected at most 64 lengths"),
        (b'{"x": {"dtype": "U8", "shape": [-0, 3], "data_offsets": [0, 0]}}', b"", r"tensor 'x' has shape \[-0.0, 3\]"),
        ({"x": dict(X, shape=[1] * 65)}, b"a", "tensor 'x' has shape .*; expected at most 64 lengths"),
        ({"x": dict(X, shape="4")}, b"abcd", "tensor 'x' has shape '4'; expected at most 64 lengths"),
        ({"x": dict(X, dtype="F4")}, b"abcd", "tensor 'x' has dtype 'F4'; expected one of BOOL, U8, "),
        ({"x": dict(X, dtype=["U8"])}, b"abcd", r"tensor 'x' has dtype \['U8'\]; expected one of"),
        ({"x": dict(X, more=1)}, b"abcd", "tensor 'x' is .*; expected dtype, shape and data_offsets"),
        ({"x": [1]}, b"", r"tensor 'x' is \[1\]; expected dtype, shape and data_offsets"),
        ({"\ud800": X}, b"abcd", r"tensor '\\ud800' has half a character in its name; expected UTF-8"),
        ({"__metadata__": {"a": 1}}, b"", "__metadata__ is {'a': 1}; expected an object of texts"),
        ({"__metadata__": ["a"]}, b"", r"__metadata__ is \['a'\]; expected an object of texts"),
        (
            {"x": dict(X, shape=[0, 1 << 62, 8], data_offsets=[0, 0])},
            b"",
            r"tensor 'x' has shape .*, of fewer than 2\*\*63",
        ),
        (json.dumps({"x": X}).ljust(80).encode("utf-16-le"), b"abcd", "not JSON .*; expected a safetensors file"),
        (b'{"x": 1, "x": 2}', b"", "the name 'x' stands twice; expected a safetensors file"),
        (b'{"x": {"a": 1, "a": 2}}', b"", "the name 'a' stands twice; expected a safetensors file"),
        (b"[]", b"", r"its header begins with b'\[\] +'; expected a safetensors file, and { there"),
        (b'{"x": ' + b"[" * 100_000, b"", "nested too deeply for JSON; expected a safetensors file"),
        (b"{" + b"\xff" * 7, b"", "its header is not UTF-8; expected a safetensors file"),
        (b"{nothing", b"", r"not JSON \(Expecting property name .*\); expected a safetensors file"),
    ],
)
def test_a_header_that_does_not_describe_the_file_is_refused(
    tmp_path: Path, entries: Any, data: bytes, expected: str
) -> None:
    path = written(tmp_path / "m", entries, data)
    size = path.stat().st_size
    named = expected
    for name, value in {"{size}": size, "{more}": size + 1, "{less}": size - 1}.items():
        named = named.replace(name, str(value))
    with pytest.raises(ValueError, match=f"^{path}: {named}") as refused:
        read(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "0 bytes; expected a safetensors file, whose header takes 8 and more"),
        (b"1234567", "7 bytes; expected a safetensors file, whose header takes 8 and more"),
        (struct.pack("<Q", 100), "cut short: 8 bytes, with a header of 100; expected 108 and more"),
        (struct.pack("<Q", 1 << 63), "a header of 9,223,372,036,854,775,808 bytes; expected .* 100,000,000 at most"),
        (struct.pack("<Q", 0), "its header begins with b''; expected a safetensors file"),
        (b"\x93NUMPY\x01\x00\xff\xff", "version 1 with a header of 65,535 bytes; expected a .npy file of numbers"),
        (b"\x93NUMPY\x01\x00\x04\x00{'d:", 'its header is b"{\'d:"; expected a .npy file of numbers'),
        (b"\x93NUMPY\x01\x00\x10\x27" + b"-" * 10_000, "its header is b'---.*; expected a .npy file of numbers"),
        (b"\x93NUMPY\x09\x00\xff\xff", "version 9 with .*; expected a .npy file of numbers"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: bytes, expected: str) -> None:
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(ValueError, match=f"^{tmp_path}/m: {expected}"):
        read(tmp_path / "m")


def test_metadata_may_be_null(tmp_path: Path) -> None:
    header = read(written(tmp_path / "m", {"__metadata__": None, "x": X}, b"abcd"))
    assert header.metadata == {} and [e.name for e in header.entries] == ["x"]


def test_numpys_files_of_anything_but_numbers_are_refused(tmp_path: Path) -> None:
    for x in (np.array([object()]), np.zeros(3, [("a", "i4")]), np.array(["a"])):
        np.save(tmp_path / "x.npy", x, allow_pickle=True)
        with pytest.raises(ValueError, match=r"expected a \.npy file of numbers"):
            read(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.zeros(3))
    os.truncate(tmp_path / "x.npy", 151)
    with pytest.raises(ValueError, match="cut short: 151 bytes; expected 152"):
        read(tmp_path / "x.npy")


def test_what_is_no_plain_file_is_refused_by_all_ranks_and_nobody_waits(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "raw").write_bytes(b"12345")

    def work(comm: Any) -> list[str]:
        load = ringtree.storage.load
        names = [tmp_path / "pipe", tmp_path, "/dev/zero", tmp_path / "none", "a\0b"]
        found = [caught(lambda name=name: load(name, comm)) for name in names]
        return [*found, caught(lambda: load(tmp_path / "raw", comm, dtype="f4", shape=(-1, 2)))]

    expected = "expected a safetensors file"
    assert (
        ringtree.spawn(work, 2, timeout_s=60)
        == [
            [
                f"ValueError: {tmp_path}/pipe: a pipe; {expected}",
                f"ValueError: {tmp_path}: a folder; {expected}",
                f"ValueError: /dev/zero: a device; {expected}",
                f"ValueError: {tmp_path}/none: no such file; {expected}",
                "ValueError: path is 'a\\x00b', with a NUL; expected the name of a file",
                f"ValueError: {tmp_path}/raw: 5 bytes; expected an array of shape (-1, 2) of float32, 4 bytes each",
            ]
        ]
        * 2
    )


SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)
THEIRS = [name for name in ELEMENTS if "FNUZ" not in name]
"""The types of elements that safetensors' own serializer takes, too."""
TABLES = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(lambda name: name != "__metadata__"),
    st.tuples(st.sampled_from(THEIRS), SHAPES),
    max_size=6,
)


@given(TABLES, st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.text("ab"), max_size=1))
def test_headers_are_safetensors_own_both_ways(
    tmp_path_factory: pytest.TempPathFactory, table: dict[str, tuple[str, tuple[int, ...]]], metadata: dict[str, str]
) -> None:
    first, entries = safetensors_bytes({n: (ELEMENTS[of], shape) for n, (of, shape) in table.items()}, metadata)
    data = os.urandom(entries[-1].end - len(first) if entries else 0)
    path = tmp_path_factory.mktemp("header") / "m"
    path.write_bytes(first + data)
    theirs = {
        e.name: {"dtype": e.element.label, "shape": list(e.shape), "data": (first + data)[e.begin : e.end]}
        for e in entries
    }
    assert {n: (v["dtype"], tuple(v["shape"]), bytes(v["data"])) for n, v in deserialize(first + data)} == {
        n: (ELEMENTS[of].name, shape, theirs[n]["data"]) for n, (of, shape) in table.items()
    }
    header = read(path)
    assert header.entries == entries and header.metadata == metadata


@given(TABLES, st.data())
def test_what_safetensors_refuses_is_refused(
    tmp_path_factory: pytest.TempPathFactory, table: dict[str, tuple[str, tuple[int, ...]]], draw: st.DataObject
) -> None:
    """A file with some changed bytes: taken only where safetensors takes it, and then as it does."""
    first, entries = safetensors_bytes({n: (ELEMENTS[of], shape) for n, (of, shape) in table.items()}, {})
    file = bytearray(first + bytes(entries[-1].end - len(first) if entries else 0))
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, len(first) - 1))
        file[at] = draw.draw(st.sampled_from(b'0123456789{}[],:"-. \0aF'))
    file = file[: draw.draw(st.integers(0, len(file)))] if draw.draw(st.booleans()) else file
    path = tmp_path_factory.mktemp("header") / "m"
    path.write_bytes(file)
    try:
        header = read(path)
    except ValueError as refused:
        assert str(refused).startswith(f"{path}: ") and "\n" not in str(refused)
        return
    try:
        theirs = dict(deserialize(bytes(file)))
    except SafetensorError as error:
        pytest.fail(f"taken, and refused by safetensors: {error}")
    assert {e.name: (e.element.name, list(e.shape)) for e in header.entries} == {
        n: (v["dtype"], v["shape"]) for n, v in theirs.items()
    }


def test_a_header_of_many_tensors_is_read_in_time(tmp_path: Path) -> None:
    names = {f"{k}": {"dtype": "U8", "shape": [1], "data_offsets": [k, k + 1]} for k in range(30_000)}
    path = written(tmp_path / "m", json.dumps(names).encode(), bytes(30_000))
    assert len(read(path).entries) == 30_000
    assert gc.isenabled()
    gc.disable()
    try:
        read(path)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_long_header_that_is_refused_leaves_the_collector_as_it_was(tmp_path: Path) -> None:
    names = {f"{k}": {"dtype": "U8", "shape": [1], "data_offsets": [k, k + 1]} for k in range(30_000)}
    path = written(tmp_path / "m", json.dumps({**names, "x": {**X, "shape": [True]}}).encode(), bytes(30_004))
    assert path.stat().st_size > LONG_HEADER_BYTES
    with pytest.raises(ValueError, match="tensor 'x' has shape"):
        read(path)
    assert gc.isenabled()
