"""Checks the numbers in the rows of nccl-tests' tables, which may be hundreds of thousands."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

SHORTEST_US, LONGEST_US = 1e-3, 1e12
NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|[nN][aA][nN]|-?[iI][nN][fF]|[nN]/[aA]")
"""A word of the figures, as nccl-tests prints it."""
_WHOLE = re.compile(r"-?\d{1,18}")
_WRONG = re.compile(r"\d{1,15}(\.\d+)?([eE][+-]?\d{1,2})?")
"""nccl-tests prints six digits: a million wrong elements are 1e+06. Its old column of errors has fractions."""
_NOT_COUNTED = ("N/A", "-", "")
MOST_NAMED = 16
"""Lines that a note names."""


def measured_side(path: Path, line: int, words: Sequence[str]) -> tuple[float, float, float, str] | None:
    """Time (0 where the file has that), algbw, busbw and how many are wrong, in words; None where nothing was
    measured."""
    if words[0] in ("N/A", "-"):
        return None
    try:
        time_us, algbw, busbw = float(words[0]), float(words[1]), float(words[2])
        sound = 0 <= time_us < math.inf and 0 <= algbw < math.inf and 0 <= busbw < math.inf
    except ValueError:
        sound = False
    if not sound:
        raise _wrong_side(path, line, words)
    if time_us and not SHORTEST_US <= time_us <= LONGEST_US:
        expected = f"expected {SHORTEST_US:g} to {LONGEST_US:g} microseconds"
        raise ValueError(f"{path}, line {line}: time {words[0][:40]}; {expected}")
    return time_us * 1e-6, algbw, busbw, words[3] if len(words) > 3 else "N/A"


def wrong_elements(path: Path, line: int, word: str) -> int:
    """The number in the column of wrong elements; 0 where they were not counted, 1 for an error that is no number."""
    if word.strip() in _NOT_COUNTED:
        return 0
    if word.lower().lstrip("-") in ("nan", "inf"):
        return 1
    if not _WRONG.fullmatch(word):
        raise ValueError(f"{path}, line {line}: wrong {word[:40]!r}; expected a number of elements, or N/A")
    return int(float(word))


def _wrong_side(path: Path, line: int, words: Sequence[str]) -> ValueError:
    """The error for the first of time, algbw and busbw that is no finite number of at least 0."""
    for what, word in zip(("time", "algbw", "busbw"), words, strict=False):
        try:
            if 0 <= float(word) < math.inf:
                continue
        except ValueError:
            return ValueError(f"{path}, line {line}: {what} {word[:40]!r}; expected a number")
        return ValueError(f"{path}, line {line}: {what} {word[:40]}; expected a number of at least 0")
    raise AssertionError(words)


def whole(path: Path, line: int, what: str, found: object, least: int, most: int) -> int:
    """The number that was found, as a number or in words."""
    if type(found) is int and least <= found <= most:
        return found
    word = str(found).strip()
    if not _WHOLE.fullmatch(word) or not least <= int(word) <= most:
        raise ValueError(f"{path}, line {line}: {what} {word[:40]!r}; expected a whole number of {least} to {most}")
    return int(word)


def named_lines(rows: Sequence[tuple[int, int]]) -> str:
    """The first of rows, each given by its line and bytes, and how many more there are."""
    named = ", ".join(f"line {line} ({nbytes} B)" for line, nbytes in rows[:MOST_NAMED])
    return named + (f" and {len(rows) - MOST_NAMED:,} more" if len(rows) > MOST_NAMED else "")
