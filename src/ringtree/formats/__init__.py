"""Other people's files, and ringtree's own. `load` tells by what is in a file, not by its name, what it is."""

from __future__ import annotations

from pathlib import Path

from ringtree.formats import msccl, mscclpp
from ringtree.formats.imported import FormatError, Imported, read_bytes
from ringtree.ir.spec import ScheduleError, check
from ringtree.ir.text import ScheduleTextError, parse_schedule

__all__ = ["FormatError", "Imported", "load"]


def load(path: str | Path) -> Imported:
    """The schedule in a file: ringtree's own text, MSCCL XML or an MSCCL++ execution plan. FormatError, in one line,
    where it is none of them or a broken one; whether it does what it promises is for `verify` to say."""
    path = Path(path)
    data = read_bytes(path).removeprefix(b"\xef\xbb\xbf")
    start = data.lstrip()
    try:
        if start.startswith(b"<"):
            return msccl.from_bytes(path, data)
        if start.startswith(b"{"):
            return mscclpp.from_bytes(path, data)
        if not _is_text(start):
            raise FormatError(
                f"{path}: not a schedule; expected ringtree's text ('schedule NAME COLLECTIVE: …'), MSCCL XML or an "
                "MSCCL++ execution plan"
            )
        schedule = parse_schedule(data.decode())
        check(schedule)
    except (ScheduleTextError, ScheduleError) as e:
        raise FormatError(f"{path}: {e}") from None
    except UnicodeDecodeError as e:
        raise FormatError(f"{path}: not text: byte {e.start} is no UTF-8") from None
    return Imported(schedule, facts={"format": "ringtree text"})


def _is_text(start: bytes) -> bool:
    """Whether the first line that is no comment begins as a schedule's does."""
    for line in start.splitlines():
        if line.strip() and not line.lstrip().startswith(b"#"):
            return line.split()[0] == b"schedule"
    return False
