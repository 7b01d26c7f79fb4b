"""The wire format of protocol buffers: the fields of a message, a message of fields, and messages one after another,
each behind its length. What a field means is its schema's business."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ringtree.files.file_bytes import FileContent

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""The wire types; groups, which no current schema has, are refused."""
MOST_MESSAGE_BYTES = 1 << 20
"""A node is some hundred bytes; of PyTorch's, with the shapes of its inputs, some thousands."""


class Field(NamedTuple):
    """A field of a message. `value`: of LENGTH the bytes, else the bits as an unsigned number."""

    number: int
    wire: int
    value: int | bytes

    @property
    def bits(self) -> int:
        """The value of a number; ValueError of another."""
        if isinstance(self.value, bytes):
            raise ValueError(f"field {self.number} has bytes; expected a number")
        return self.value

    @property
    def data(self) -> bytes:
        """The value of a text, of bytes or of a message; ValueError of another."""
        if not isinstance(self.value, bytes):
            raise ValueError(f"field {self.number} has a number; expected bytes")
        return self.value

    @property
    def many(self) -> list[int]:
        """The value of a repeated varint, packed or one of several fields."""
        if not isinstance(self.value, bytes):
            return [self.value]
        found, at = [], 0
        while at < len(self.value):
            one, at = varint(self.value, at)
            found.append(one)
        return found


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at that position, and the position after it. ValueError: if it is cut short or too long."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
    raise ValueError("a number is cut short" if shift < 70 else "a number of more than 64 bits")


def fields(data: bytes) -> Iterator[Field]:
    """The fields of a message, in their order. ValueError: if it is cut short, or has fields of unknown types."""
    at, end = 0, len(data)
    while at < end:
        key, at = (data[at], at + 1) if data[at] < 0x80 else varint(data, at)
        wire = key & 7
        if wire == VARINT:
            value, at = (data[at], at + 1) if at < end and data[at] < 0x80 else varint(data, at)
            yield Field(key >> 3, wire, value)
            continue
        if wire == LENGTH:
            length, at = (data[at], at + 1) if at < end and data[at] < 0x80 else varint(data, at)
        elif wire in (FIXED64, FIXED32):
            length = 8 if wire == FIXED64 else 4
        else:
            raise ValueError(f"field {key >> 3} has the wire type {wire}; expected 0, 1, 2 or 5")
        if length > end - at:
            raise ValueError(f"field {key >> 3} is cut short")
        found = data[at : at + length]
        at += length
        yield Field(key >> 3, wire, found if wire == LENGTH else int.from_bytes(found, "little"))


def messages(file: FileContent) -> Iterator[bytes]:
    """The messages of a file, each behind its length. ValueError: if one is cut short or too long."""
    data, at = b"", 0
    while True:
        if len(data) - at < 10:
            data, at = _more(file, data[at:], 10), 0
            if not data:
                return
        length, at = varint(data, at)
        if length > MOST_MESSAGE_BYTES:
            raise ValueError(f"a message of {length:,} bytes; expected at most {MOST_MESSAGE_BYTES:,}")
        if len(data) - at < length:
            data, at = _more(file, data[at:], length), 0
        if len(data) < at + length:
            raise ValueError("a message is cut short")
        yield data[at : at + length]
        at += length


def _more(file: FileContent, data: bytes, wanted: int) -> bytes:
    """The data, and what follows until so many bytes are there, or the file ends."""
    pieces, length = [data], len(data)
    while length < wanted and (piece := file.read()):
        pieces.append(piece)
        length += len(piece)
    return b"".join(pieces)


def signed(bits: int) -> int:
    """A number of type int32 or int64 from its bits."""
    return bits - (1 << 64) if bits >> 63 else bits


def zigzag(bits: int) -> int:
    """A number of type sint32 or sint64 from its bits."""
    return bits >> 1 ^ -(bits & 1)


def real(field: Field) -> float:
    """A number of type double or float."""
    code, length = ("<d", 8) if field.wire == FIXED64 else ("<f", 4)
    found: float = struct.unpack(code, field.bits.to_bytes(8, "little")[:length])[0]
    return found


def packed_varint(value: int) -> bytes:
    """The number, negative ones as 64 bits, as a varint."""
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def message(*written: tuple[int, int | float | bytes | str]) -> bytes:
    """A message of (field number, value): integers and booleans as varints, a float as a double, text, bytes and inner
    messages behind their length."""
    found = bytearray()
    for number, value in written:
        if isinstance(value, float):
            found += packed_varint(number << 3 | FIXED64) + struct.pack("<d", value)
        elif isinstance(value, int):
            found += packed_varint(number << 3 | VARINT) + packed_varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            found += packed_varint(number << 3 | LENGTH) + packed_varint(len(data)) + data
    return bytes(found)
