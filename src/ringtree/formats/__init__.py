"""The file formats of other tools, and ringtree's own. `load` recognizes a format by the file's content, not its
name; `text_of` writes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from ringtree.formats import chrome, forestcoll
from ringtree.formats.imported import (
    LARGEST_BYTES,
    FormatError,
    Imported,
    check_contents,
    check_moves,
    check_words,
    read_bytes,
)
from ringtree.formats.msccl import programs as msccl
from ringtree.formats.msccl import writing as msccl_writing
from ringtree.formats.mscclpp import programs as mscclpp
from ringtree.formats.mscclpp import writing as mscclpp_writing
from ringtree.formats.operations import format_of
from ringtree.formats.streams import NotExpressible
from ringtree.ir.moves import Moves
from ringtree.ir.schedule import Schedule
from ringtree.ir.spec import ScheduleError, check, describe, title
from ringtree.ir.text import ScheduleTextError, format_schedule, parse_schedule

__all__ = [
    "FORMATS",
    "WRITERS",
    "Format",
    "FormatError",
    "Imported",
    "NotExpressible",
    "Writer",
    "load",
    "parse",
    "text_of",
]


class Format(NamedTuple):
    """A file format. `name`: its name in errors. `begins`: whether a file has this format, by its bytes from the first
    that is no space. `read`: the file's schedule, from its path and bytes; FormatError, ScheduleError or
    UnicodeDecodeError where it is broken."""

    name: str
    begins: Callable[[bytes], bool]
    read: Callable[[Path, bytes], Imported]


class Writer(NamedTuple):
    """A file format that schedules are written in. `suffix`: of its files. `text`: a schedule's file; NotExpressible
    where the format has no room for it. `by_node`: whether `text` takes the number of gpus of a node, too; `keeps`: the
    facts of a file that it takes over, all of them together."""

    suffix: str
    text: Callable[..., str]
    by_node: bool = False
    keeps: tuple[str, ...] = ()


def load(path: str | Path) -> Imported:
    """The schedule in a file of one of FORMATS. FormatError, in one line: if the file is missing, broken or of no such
    format; `verify` checks whether the schedule keeps its collective's postcondition."""
    path = Path(path)
    if graph := format_of(path):
        raise FormatError(f"{path}: {graph}: its messages have no data; `ringtree simulate` plays it")
    if chrome.is_trace(path):
        raise FormatError(
            f"{path}: a trace; expected a schedule (`ringtree show` draws a trace, `ringtree compare-trace` two)"
        )
    return parse(path, read_bytes(path))


def parse(path: Path, data: bytes) -> Imported:
    """As `load`, of a file's bytes; `path` is its name in errors."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FormatError(
            f"{path}: is UTF-16, as PowerShell's > writes it; expected UTF-8 (Set-Content -Encoding utf8)"
        )
    start = data.lstrip()
    found = next((known for known in FORMATS if known.begins(start)), None)
    if found is None:
        *names, last = (known.name for known in FORMATS)
        raise FormatError(f"{path}: not a schedule; expected {', '.join(names)} or {last}")
    try:
        imported = found.read(path, data)
        check_words(imported, path)
        check_contents(imported.schedule)
        return imported
    except (ScheduleTextError, ScheduleError) as e:
        raise FormatError(f"{path}: {e}") from None
    except UnicodeDecodeError as e:
        raise FormatError(f"{path}: not text: byte {e.start} is no UTF-8") from None


def text_of(
    schedule: Schedule, key: str, gpus_per_node: int | None = None, facts: Mapping[str, str | int] | None = None
) -> str:
    """The text of the schedule's file in the format of that key. It reads back by `load` as a schedule of the same
    collective, ranks and chunks, whose ranks send each other as much. `gpus_per_node`: where the ranks are on several
    nodes, and the format names what connects them. `facts`: of the file that it was read from; those that the format
    has too are taken over. NotExpressible: where the format has no room for it. ValueError: for an unknown key, or
    nodes that the format or the ranks do not have."""
    if key not in WRITERS:
        raise ValueError(f"no format {key!r}: expected one of {', '.join(WRITERS)}")
    check(schedule)
    writer = WRITERS[key]
    if gpus_per_node is None:
        kept = {name: facts[name] for name in writer.keeps if name in facts} if facts else {}
        return _readable(schedule, key, writer.text(schedule, kept) if kept else writer.text(schedule))
    if not writer.by_node:
        able = ", ".join(name for name, other in WRITERS.items() if other.by_node)
        raise ValueError(f"{gpus_per_node} gpus a node: {key} does not name channels between nodes; expected {able}")
    if gpus_per_node < 1 or schedule.ranks % gpus_per_node:
        raise ValueError(f"{gpus_per_node} gpus a node: expected a divisor of the {schedule.ranks} ranks")
    return _readable(schedule, key, writer.text(schedule, gpus_per_node))


def _readable(schedule: Schedule, key: str, text: str) -> str:
    """The text; NotExpressible where its file could not be read back."""
    moves = None if key == "text" else Moves.of(schedule)
    if moves is not None and (row := moves.unwritten(schedule)) is not None:
        raise NotExpressible(
            f"{title(schedule)}: {describe(moves.rows, row)}: reads a chunk that nothing has written before; {key} has "
            "no such reads"
        )
    if len(text) > LARGEST_BYTES:
        raise NotExpressible(f"{schedule.name} takes {len(text):,} bytes; expected at most {LARGEST_BYTES:,}")
    return text


def _is_text(start: bytes) -> bool:
    """Whether the first line that is no comment begins as a schedule's does."""
    for line in start.splitlines():
        if line.strip() and not line.lstrip().startswith(b"#"):
            return line.split()[0] == b"schedule"
    return False


def _text(path: Path, data: bytes) -> Imported:
    schedule = parse_schedule(data.decode())
    check_moves(schedule)
    check(schedule)
    return Imported(schedule, facts={"format": "ringtree text"})


def _write_text(schedule: Schedule) -> str:
    return f"{format_schedule(schedule)}\n"


FORMATS = [
    Format("ringtree's text ('schedule NAME COLLECTIVE: …')", _is_text, _text),
    Format("ForestColl's trees", forestcoll.begins, forestcoll.from_bytes),
    Format("MSCCL XML", lambda start: start.startswith(b"<"), msccl.from_bytes),
    Format("an MSCCL++ execution plan", lambda start: start.startswith(b"{"), mscclpp.from_bytes),
]
"""The formats that are read, in the order in which they are tried: a new one is a line here."""

WRITERS = {
    "text": Writer(".txt", _write_text),
    "msccl": Writer(".xml", msccl_writing.text, keeps=tuple(msccl_writing.KEPT)),
    "mscclpp": Writer(".json", mscclpp_writing.text, by_node=True),
}
"""The formats that are written, by their names on the command line: a new one is a line here."""
