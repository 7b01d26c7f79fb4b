"""The lines between the launcher and a host's agent.

The launcher sends JSON objects, and empty lines as a sign of life. The agent sends its greeting, then the ranks' lines
(`1 RANK text`, `2 RANK text`: standard output, standard error) and JSON objects (`= {…}`).
"""

from __future__ import annotations

import json
from typing import Any

GREETING = b"ringtree agent "
"""The beginning of the agent's first line; what a login shell prints before it is passed over."""
EVENT = b"= "
BEAT_S = 2.0
"""Seconds between two signs of life of the launcher."""
SILENCE_S = 30.0
"""Seconds without one, after which an agent ends its ranks."""

LONGEST_MESSAGE = 1 << 26
"""Bytes of a line: a program's arguments and variables, which the system bounds, are in one, each byte of them in up to
six, and so is a rank's longest line."""

Message = dict[str, Any]


def line_of(message: Message) -> bytes:
    """The message as a line."""
    return json.dumps(message).encode() + b"\n"


def event(message: Message) -> bytes:
    """The agent's message as a line."""
    return EVENT + line_of(message)


def output(number: int, rank: int, text: bytes) -> bytes:
    """A rank's line as one of the agent's."""
    return b"%d %d %b\n" % (number, rank, text)


class UnknownLine(ValueError):
    """A line that neither side writes: something else prints where the agent does."""


def output_of(line: bytes) -> tuple[int, int, bytes]:
    """Stream, rank and text of such a line; UnknownLine for another."""
    try:
        number, rank, text = line.split(b" ", 2)
        return int(number), int(rank), text
    except ValueError:
        raise UnknownLine(line[:80]) from None


def message_of(text: bytes) -> Message:
    """The message of a line, without what marks it; UnknownLine for another."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise UnknownLine(text[:80]) from None
    if not isinstance(found, dict):
        raise UnknownLine(text[:80])
    return found
