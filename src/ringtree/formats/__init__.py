"""The file formats of other tools, and ringtree's own. `load` recognizes a format by the file's content, not its
name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ringtree.formats import forestcoll, msccl, mscclpp
from ringtree.formats.imported import FormatError, Imported, read_bytes
from ringtree.formats.operations import format_of
from ringtree.ir.spec import ScheduleError, check
from ringtree.ir.text import ScheduleTextError, parse_schedule

__all__ = ["FORMATS", "Format", "FormatError", "Imported", "load"]


class Format(NamedTuple):
    """A file format. `name`: its name in errors. `begins`: whether a file has this format, by its bytes from the first
    that is no space. `read`: the file's schedule, from its path and bytes; FormatError, ScheduleError or
    UnicodeDecodeError where it is broken."""

    name: str
    begins: Callable[[bytes], bool]
    read: Callable[[Path, bytes], Imported]


def load(path: str | Path) -> Imported:
    """The schedule in a file of one of FORMATS. FormatError, in one line: if the file is missing, broken or of no such
    format; `verify` checks whether the schedule keeps its collective's postcondition."""
    path = Path(path)
    if graph := format_of(path):
        raise FormatError(f"{path}: {graph}: its messages have no data; `ringtree simulate` plays it")
    data = read_bytes(path).removeprefix(b"\xef\xbb\xbf")
    start = data.lstrip()
    found = next((known for known in FORMATS if known.begins(start)), None)
    if found is None:
        *names, last = (known.name for known in FORMATS)
        raise FormatError(f"{path}: not a schedule; expected {', '.join(names)} or {last}")
    try:
        return found.read(path, data)
    except (ScheduleTextError, ScheduleError) as e:
        raise FormatError(f"{path}: {e}") from None
    except UnicodeDecodeError as e:
        raise FormatError(f"{path}: not text: byte {e.start} is no UTF-8") from None


def _is_text(start: bytes) -> bool:
    """Whether the first line that is no comment begins as a schedule's does."""
    for line in start.splitlines():
        if line.strip() and not line.lstrip().startswith(b"#"):
            return line.split()[0] == b"schedule"
    return False


def _text(path: Path, data: bytes) -> Imported:
    schedule = parse_schedule(data.decode())
    check(schedule)
    return Imported(schedule, facts={"format": "ringtree text"})


FORMATS = [
    Format("ringtree's text ('schedule NAME COLLECTIVE: …')", _is_text, _text),
    Format("ForestColl's trees", forestcoll.begins, forestcoll.from_bytes),
    Format("MSCCL XML", lambda start: start.startswith(b"<"), msccl.from_bytes),
    Format("an MSCCL++ execution plan", lambda start: start.startswith(b"{"), mscclpp.from_bytes),
]
"""The formats there are, in the order in which they are tried: a new one is a line here."""
