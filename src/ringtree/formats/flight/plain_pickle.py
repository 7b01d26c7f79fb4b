"""Pickles of plain data, read without running code.

The standard unpickler calls what a pickle names, and reserves what a pickle announces. This one knows only the
instructions that make None, numbers, text, lists, tuples and dicts. Those of a dump are written by Python's pickler
(protocol 2 and up) or by torch's.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

MOST_VALUES = 5_000_000
"""Values in a pickle; each takes some 64 bytes of memory."""
MOST_OPEN = 64
"""Lists, tuples and dicts that are begun and not ended."""
LONGEST_INTEGER = 16
"""Bytes of one."""


class PickleError(ValueError):
    """A fault of a pickle; the message names no file."""


def load(data: bytes) -> Any:
    """The value of a pickle. PickleError: if it is broken, would run code, or is beyond the limits above. Lists and
    dicts may occur in several places of the value, even in themselves: whoever walks it goes by its known shape."""
    return _Machine(data).run()


class _Machine:
    """The pickle's stack, its memo, and the place in its bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.values = data, 0, 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        """The value on the stack at the end."""
        while (code := self.take(1)) != b".":
            step = _STEPS.get(code)
            if step is None:
                raise PickleError(self.refused(code))
            step(self)
        if self.marks or len(self.stack) != 1:
            raise PickleError(f"ends at byte {self.at} with {len(self.stack)} values; expected one")
        return self.stack[0]

    def refused(self, code: bytes) -> str:
        """Why no step does `code`."""
        if code not in _CODE:
            return f"instruction {code!r} at byte {self.at - 1} makes no plain data"
        name = ""
        if code in b"ci":
            name = " ".join(self.data[self.at : self.at + 200].decode(errors="replace").split("\n")[:2])
        elif code == b"\x93":
            name = " ".join(str(x)[:100] for x in self.stack[-2:])
        return f"would run code{f' ({name})' if name else ''}: refused"

    def take(self, n: int) -> bytes:
        """The next `n` bytes."""
        found = self.data[self.at : self.at + n]
        if len(found) < n:
            raise PickleError(f"ends after {len(self.data)} bytes in the middle of a value")
        self.at += n
        return found

    def number(self, n: int) -> int:
        """The next `n` bytes as a number without a sign."""
        return int.from_bytes(self.take(n), "little")

    def push(self, value: Any) -> None:
        """A value of its own."""
        self.values += 1
        if self.values > MOST_VALUES:
            raise PickleError(f"has more than {MOST_VALUES:,} values")
        self.stack.append(value)

    def pop(self) -> Any:
        """The value on top, which was pushed behind the last mark."""
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise PickleError(f"takes a value at byte {self.at} that it does not have")
        return self.stack.pop()

    def top(self, kind: type) -> Any:
        """The list or dict that what was just taken goes into."""
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise PickleError(f"adds to no {kind.__name__} at byte {self.at}")
        return self.stack[-1]

    def mark(self) -> None:
        """Begins a list, tuple or dict."""
        if len(self.marks) >= MOST_OPEN:
            raise PickleError(f"is nested more than {MOST_OPEN} deep")
        self.marks.append(len(self.stack))

    def marked(self) -> list[Any]:
        """The values behind the last mark, and ends it."""
        if not self.marks:
            raise PickleError(f"ends at byte {self.at} what it did not begin")
        begin = self.marks.pop()
        found = self.stack[begin:]
        del self.stack[begin:]
        return found

    def text(self, n: int) -> None:
        """Text of `n` bytes."""
        try:
            self.push(self.take(n).decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            raise PickleError(f"has text at byte {self.at - n} that is no UTF-8") from None

    def integer(self, n: int) -> None:
        """A number of `n` bytes with a sign."""
        if n > LONGEST_INTEGER:
            raise PickleError(f"has a number of {n} bytes")
        self.push(int.from_bytes(self.take(n), "little", signed=True))

    def put(self, number: int) -> None:
        """Remembers the value on top."""
        self.memo[number] = self.top(object)

    def get(self, number: int) -> None:
        """A remembered value."""
        if number not in self.memo:
            raise PickleError(f"recalls value {number} at byte {self.at}, which it did not make")
        self.push(self.memo[number])

    def tuple_of(self, n: int) -> None:
        """A tuple of the `n` values on top."""
        self.push(tuple([self.pop() for _ in range(n)][::-1]))

    def extend(self) -> None:
        """Adds the marked values to the list below them."""
        values = self.marked()
        self.top(list).extend(values)

    def append(self) -> None:
        """Adds the value on top to the list below it."""
        value = self.pop()
        self.top(list).append(value)

    def set_items(self) -> None:
        """Adds the marked keys and values to the dict below them."""
        values = self.marked()
        if len(values) % 2:
            raise PickleError(f"has a key without a value at byte {self.at}")
        for key, value in zip(values[::2], values[1::2], strict=True):
            self.set_item(key, value)

    def set_top(self) -> None:
        """Adds the key and the value on top to the dict below them."""
        value, key = self.pop(), self.pop()
        self.set_item(key, value)

    def set_item(self, key: Any, value: Any) -> None:
        """`key` must be text or a number."""
        if not isinstance(key, str | int):
            raise PickleError(f"has a key at byte {self.at} that is neither text nor a number")
        self.top(dict)[key] = value


_Step = Callable[[_Machine], object]
_CODE = frozenset(bytes([c]) for c in b"ci\x93RbPQo\x81\x92\x82\x83\x84")
"""Instructions that name or call something."""
_STEPS: dict[bytes, _Step] = {
    b"\x80": lambda m: m.take(1),
    b"\x95": lambda m: m.take(8),
    b"(": _Machine.mark,
    b"N": lambda m: m.push(None),
    b"\x88": lambda m: m.push(True),
    b"\x89": lambda m: m.push(False),
    b"K": lambda m: m.push(m.number(1)),
    b"M": lambda m: m.push(m.number(2)),
    b"J": lambda m: m.integer(4),
    b"\x8a": lambda m: m.integer(m.number(1)),
    b"G": lambda m: m.push(struct.unpack(">d", m.take(8))[0]),
    b"\x8c": lambda m: m.text(m.number(1)),
    b"X": lambda m: m.text(m.number(4)),
    b"\x8d": lambda m: m.text(m.number(8)),
    b"]": lambda m: m.push([]),
    b"a": _Machine.append,
    b"e": _Machine.extend,
    b")": lambda m: m.push(()),
    b"t": lambda m: m.push(tuple(m.marked())),
    b"\x85": lambda m: m.tuple_of(1),
    b"\x86": lambda m: m.tuple_of(2),
    b"\x87": lambda m: m.tuple_of(3),
    b"}": lambda m: m.push({}),
    b"s": _Machine.set_top,
    b"u": _Machine.set_items,
    b"q": lambda m: m.put(m.number(1)),
    b"r": lambda m: m.put(m.number(4)),
    b"\x94": lambda m: m.put(len(m.memo)),
    b"h": lambda m: m.get(m.number(1)),
    b"j": lambda m: m.get(m.number(4)),
}
