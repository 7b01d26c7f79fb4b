"""JSON that somebody else wrote, in bounded memory: its values are counted before any is made."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable
from typing import Any

MOST_BYTES = 1 << 25
"""The most of a document that is parsed at once."""
MOST_VALUES = 4_000_000
"""A value takes 96 bytes at most of what Python makes of it, beside its text."""


def json_value(
    data: bytes | str,
    where: str,
    expected: str,
    *,
    most: int = MOST_BYTES,
    unique: bool = False,
    whole: Callable[[str], Any] | None = None,
) -> Any:
    """The value of a JSON text. ValueError, in one line that begins with `where`: if it is no JSON, longer than `most`
    bytes, or of too many or too deeply nested values; with `unique`, also if an object has a name twice.
    `whole`: what a whole number's text becomes, if not an int."""
    text = data
    data = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(data) > most:
        raise ValueError(f"{where}: {len(data):,} bytes; expected {expected}, at most {most:,} bytes")
    if count_values(data) > MOST_VALUES:
        raise ValueError(f"{where}: more than {MOST_VALUES:,} values; expected {expected}")
    try:
        return json.loads(text, object_pairs_hook=_unique if unique else None, parse_int=whole)
    except _TwiceError as twice:
        raise ValueError(f"{where}: the name {shown(twice.args[0])} stands twice; expected {expected}") from None
    except RecursionError:
        raise ValueError(f"{where}: nested too deeply for JSON; expected {expected}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{where}: not JSON: not text; expected {expected}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: not JSON ({error}); expected {expected}") from None
    except ValueError:  # Python's own, of a number of thousands of digits
        raise ValueError(f"{where}: a number has too many digits; expected {expected}") from None


def count_values(data: bytes) -> int:
    """At least the number of values and names in a JSON text."""
    return sum(data.count(mark) for mark in (b"[", b"{", b",", b":"))


class _TwiceError(Exception):
    """A name that an object has twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        last = {name: k for k, (name, _) in enumerate(pairs)}
        raise _TwiceError(next(name for k, (name, _) in enumerate(pairs) if last[name] != k))
    return found


def printable(text: str) -> str:
    """The text without what moves a terminal's cursor, changes its colours, turns its writing round or begins a line: a
    file's names may be anybody's."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def shown(value: object) -> str:
    """A value in a few words, however long or nested it is."""
    return reprlib.repr(value)[:40]
