"""The wire format of protocol buffers: what is written reads back, and any bytes end in a ValueError at worst."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.files.file_bytes import content
from ringtree.formats.operations.wire import (
    fields,
    message,
    messages,
    packed_varint,
    real,
    signed,
    varint,
    zigzag,
)


@pytest.mark.parametrize(
    ("value", "data"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (-1, "ffffffffffffffffff01")],
)
def test_numbers_as_the_encoding_has_them(value: int, data: str) -> None:
    """300 and -1 are the examples of protobuf.dev/programming-guides/encoding."""
    assert packed_varint(value).hex() == data
    assert signed(varint(bytes.fromhex(data), 0)[0]) == value


def test_a_message_as_the_encoding_has_it() -> None:
    """`b: "testing"` as field 2, and 150 as field 1: the encoding's own examples."""
    assert message((1, 150), (2, "testing")).hex() == "08960112" + "07" + b"testing".hex()
    assert [zigzag(n) for n in (0, 1, 2, 3, 2**32 - 2, 2**32 - 1)] == [0, -1, 1, -2, 2**31 - 1, -(2**31)]


@given(st.lists(st.tuples(st.integers(1, 2**20), st.integers(-(2**63), 2**63 - 1) | st.binary() | st.floats(width=64))))
def test_what_is_written_reads_back(written: list[tuple[int, int | bytes | float]]) -> None:
    found = list(fields(message(*written)))
    assert [f.number for f in found] == [number for number, _ in written]
    for field, (_, value) in zip(found, written, strict=True):
        if isinstance(value, bytes):
            assert field.data == value
        elif isinstance(value, float):
            assert real(field) == value or value != value
        else:
            assert signed(field.bits) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_fields_or_a_value_error(data: bytes) -> None:
    try:
        for field in fields(data):
            _ = field.many if field.wire in (0, 2) else real(field)
    except ValueError as error:
        assert str(error)


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=20))
def test_messages_behind_their_lengths(tmp_path_factory: pytest.TempPathFactory, each: list[bytes]) -> None:
    path = tmp_path_factory.getbasetemp() / "messages"
    path.write_bytes(b"".join(packed_varint(len(data)) + data for data in each))
    with content(path, "messages", 1 << 20) as file:
        assert list(messages(file)) == each


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("ffffffffff7f", "expected at most"),
        ("05aa", "cut short"),
        ("ff" * 11, "more than 64 bits"),
        ("ff", "cut short"),
    ],
)
def test_broken_lengths(data: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "broken"
    path.write_bytes(bytes.fromhex(data))
    with content(path, "messages", 1 << 20) as file, pytest.raises(ValueError, match=problem):
        list(messages(file))


def test_types_that_are_no_more(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="wire type 3"):
        list(fields(bytes([1 << 3 | 3])))
