"""The groups of a host as a line of text: a process there prints it, and who has started that process reads it."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import ringtree
from ringtree.files.json_values import json_value
from ringtree.runtime.observing.worlds import LongWait, ObservedRank, ObservedWorld, worlds

T = TypeVar("T")
MARK = b"ringtree groups "
"""The beginning of the line: a login shell may print others, and the beginning of one."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The groups of one host, and the time there, by its monotonic clock."""

    now_ns: int
    groups: tuple[ObservedWorld, ...]


def listing() -> Listing:
    """The groups of this user's on this host."""
    found = tuple(worlds())
    return Listing(time.monotonic_ns(), found)


def line_of(found: Listing) -> bytes:
    """The line, and the end of the one before it."""
    given = {"version": ringtree.__version__, **dataclasses.asdict(found)}
    return b"\n" + MARK + json.dumps(given).encode() + b"\n"


def listing_in(output: bytes) -> Listing | None:
    """The listing in an output; None where there is no such line. ValueError, which goes on behind a host's name, for a
    line that is none of this version's."""
    _, found, rest = output.partition(b"\n" + MARK)
    if not found:
        return None
    where, expected = "lists its groups in another way", f"what ringtree {ringtree.__version__} prints"
    given = json_value(rest.partition(b"\n")[0], where, expected)
    version = given.get("version") if isinstance(given, dict) else None
    if version != ringtree.__version__:
        text = _text(version) if isinstance(version, str) else "another version"
        raise ValueError(
            f"has ringtree {text}, and here is {ringtree.__version__}; expected the same version everywhere"
        )
    try:
        return Listing(_number(given["now_ns"]), _all(_world, given["groups"]))
    except (KeyError, TypeError, AttributeError):
        raise ValueError(f"{where}; expected {expected}") from None


def _world(given: Mapping[str, Any]) -> ObservedWorld:
    return ObservedWorld(
        _text(given["job"]),
        _text(given["command"]),
        bool(given["readable"]),
        _text(given["failure"]),
        _all(_rank, given["ranks"]),
        _all(_number, given["holders"]),
    )


def _rank(given: Mapping[str, Any]) -> ObservedRank:
    pid, last = given["pid"], given["last"]
    return ObservedRank(
        _number(given["rank"]),
        _text(given["state"]),
        None if pid is None else _number(pid),
        _number(given["calls"]),
        None if last is None else _text(last),
        _all(_wait, given["waits"]),
    )


def _wait(given: Mapping[str, Any]) -> LongWait:
    since_ns, deadline_ns, thread = (_number(given[name]) for name in ("since_ns", "deadline_ns", "thread"))
    peer = given["peer"]
    return LongWait(
        since_ns,
        deadline_ns,
        None if peer is None else _number(peer),
        thread,
        _text(given["where"]),
        _text(given["group"]),
    )


def _all(make: Callable[[Any], T], given: list[Any]) -> tuple[T, ...]:
    if not isinstance(given, list):
        raise TypeError
    return tuple(map(make, given))


def _text(given: str) -> str:
    """Text of another host's, with nothing in it that moves a terminal's cursor."""
    if not isinstance(given, str):
        raise TypeError
    return "".join(c if c.isprintable() else "?" for c in given)


def _number(given: int) -> int:
    if type(given) is not int:
        raise TypeError
    return given


if __name__ == "__main__":
    import sys

    sys.stdout.buffer.write(line_of(listing()))
