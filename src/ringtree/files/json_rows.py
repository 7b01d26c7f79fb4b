"""JSON documents whose one long list has a line for each of its elements: read line by line, not as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ringtree.files.file_bytes import FileContent, content
from ringtree.files.json_values import MOST_BYTES, json_value

_END = re.compile(rb"\n[ \t]*\]")
"""The end of the list: no element that keeps to its line begins so."""


class JsonRows:
    """The document of a file, whose top has the list `key`. Where each of the list's elements is on a line of its own,
    as in what ringtree writes, the file may have `most` bytes; in any other form MOST_BYTES."""

    def __init__(self, path: str | Path, key: str, expected: str, most: int, unpack: bool = False) -> None:
        self.rest: Any = None
        """The document without the list, once all of that is read; as it is, where it has no such list."""
        self._path, self._key, self._expected, self._most, self._unpack = Path(path), key, expected, most, unpack
        self._begin = re.compile(rb'"%s": ?\[(?=\n)' % key.encode())  # no text in JSON has the end of a line

    def __iter__(self) -> Iterator[tuple[int, list[Any]]]:
        """The list's elements in pieces, each with the number of its first. ValueError, in one line: as `content` and
        `json_value` raise it."""
        with content(self._path, self._expected, self._most, self._unpack) as file:
            text = _until(file, b"", self._begin)
            if (begin := self._begin.search(text)) and (at := begin.end()):
                rows = _until(file, text[at:], re.compile(rb"\n.*\n"))
                if self._is_line(rows):
                    yield from self._by_lines(text[:at], rows, file)
                    return
                text = text[:at] + rows
            document = json_value(_all(file, text), str(self._path), self._expected)
        if isinstance(document, dict) and isinstance(document.get(self._key), list):
            yield 0, document.pop(self._key)
        self.rest = document

    def _is_line(self, rows: bytes) -> bool:
        """Whether the list's first line is an element, or its end."""
        line = rows[1:].partition(b"\n")[0].strip()
        try:
            return line[:1] in (b"]", b"") or bool(self._elements(line, 0))
        except ValueError:
            return False

    def _by_lines(self, head: bytes, rows: bytes, file: FileContent) -> Iterator[tuple[int, list[Any]]]:
        at = 0
        while (end := _END.search(rows)) is None:
            cut = max(rows.rfind(b"\n"), 0)
            elements = self._elements(rows[:cut], at)
            yield at, elements
            at += len(elements)
            piece = file.read()
            if not piece or len(rows) - cut > MOST_BYTES:
                raise ValueError(f"{self._path}: {self._key} has no end; expected {self._expected}")
            rows = rows[cut:] + piece
        yield at, self._elements(rows[: end.start()] + b" ", at, last=True)
        text = _all(file, head + rows[end.start() :])
        self.rest = json_value(text, str(self._path), self._expected)
        if not isinstance(self.rest, dict) or self.rest.pop(self._key, None) != []:
            raise ValueError(f"{self._path}: {self._key} is inside another value; expected {self._expected}")

    def _elements(self, lines: bytes, at: int, last: bool = False) -> list[Any]:
        lines = lines.strip() if last else lines.strip().removesuffix(b",")
        found: list[Any] = json_value(b"[" + lines + b"]", f"{self._path}: {self._key}, from {at} on", self._expected)
        return found


def _until(file: FileContent, text: bytes, found: re.Pattern[bytes]) -> bytes:
    """The text and what follows it, until `found` is in it, MOST_BYTES are, or the file ends."""
    while not found.search(text) and len(text) < MOST_BYTES and (piece := file.read()):
        text += piece
    return text


def _all(file: FileContent, text: bytes) -> bytes:
    """The text and the rest of the file, as far as json_value would take it."""
    pieces = [text]
    length = len(text)
    while length <= MOST_BYTES and (piece := file.read()):
        pieces.append(piece)
        length += len(piece)
    return b"".join(pieces)
