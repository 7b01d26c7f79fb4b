"""/sys and /proc below a root. A file that is missing, unreadable or malformed reads as empty, never as an error."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOST_BYTES = 1 << 20


class Sysfs:
    """`root` is `/`, or the root of another tree, such as a container's or a test's; no link leads out of it."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._prefix = str(self._root).rstrip("/")

    def text(self, path: str) -> str:
        """The file's text without space around it."""
        return self.content(path).decode("utf-8", "replace").strip().strip("\0")

    def content(self, path: str) -> bytes:
        """The file's bytes, at most 1 MiB of them."""
        try:
            descriptor = os.open(f"{self._prefix}/{path}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # no pipe
            with open(descriptor, "rb") as file:
                return file.read(MOST_BYTES) or b""
        except OSError:
            return b""

    def line(self, path: str) -> str:
        """The file's first line without unprintable characters: a name that goes into files and on screens."""
        first = self.text(path).partition("\n")[0]
        return first if first.isprintable() else "".join(c for c in first if c.isprintable())

    def number(self, path: str, otherwise: int = -1) -> int:
        """A whole number, decimal or after 0x hexadecimal."""
        return number(self.text(path), otherwise)

    def folder(self, path: str) -> tuple[str, ...]:
        """The names in a folder that can be printed, numbers within them in order: node2 before node10."""
        try:
            names = os.listdir(f"{self._prefix}/{path}")
        except OSError:
            return ()
        return tuple(sorted(filter(str.isprintable, names), key=natural))

    def real(self, path: str) -> str:
        """The target of a link, below the root; empty where there is none, or the link leads out."""
        try:
            found = (self._root / path).resolve(strict=True)
        except (OSError, RuntimeError):  # a link that leads to itself
            return ""
        return str(found.relative_to(self._root)) if found.is_relative_to(self._root) else ""


def number(text: str, otherwise: int = -1) -> int:
    """As `Sysfs.number` reads it."""
    try:
        return int(text, 0)
    except ValueError:
        return otherwise


def natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts the numbers in names as numbers."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,18})", name, flags=re.ASCII)
    ]


def cpu_list(text: str) -> tuple[int, ...]:
    """The numbers of a list such as 0-3,8; those before the first malformed one."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        low, high = number(first), number(last or first)
        if not 0 <= low <= high < 1 << 16:
            break
        found += range(low, high + 1)
    return tuple(found)
