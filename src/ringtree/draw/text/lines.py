"""Lines of text whose pieces have roles, which a terminal colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class TextSpan(NamedTuple):
    """A piece of a line, and what it is: "head", "new", "kept", "new kept", "faint", "wrong" or nothing special; in a
    timeline "copy", "reduce", "wait", "stall", "compute" and "path"; of a machine "gpu" and "nic", and how
    "near", "mid", "far" or "farthest" two devices are."""

    text: str
    role: str = ""


Line = tuple[TextSpan, ...]


def plain(lines: Sequence[Line]) -> str:
    """The lines without their roles."""
    return "\n".join("".join(span.text for span in line).rstrip() for line in lines)
