"""The recordings of `ringtree run --trace` on their way to the launcher: a file a rank, in a folder."""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ringtree.ir.trace import Trace
from ringtree.runtime.engines.protocols import Recorded
from ringtree.runtime.tracing.clocks import ClockReading, held_until
from ringtree.runtime.tracing.parts import NONE_APART, RankRecording, merge
from ringtree.runtime.tracing.tracing import Recording

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator

COLUMNS = Recorded._fields[:-2]
UNWRITTEN = ".error"
"""The suffix of the file of a rank that could not write its recording; the error's number follows: a full disk has room
for no text."""
FIRST_WORLD = "/init1"
"""The end of the key of a process's first world."""

_recordings: list[Recording] = []


def record_until_exit(communicator: Communicator, folder: str | Path) -> None:
    """Records this world, and the groups made from it. All its ranks call it, and over several hosts read their clocks.
    Writes the recording to `folder` when this process ends; a killed process leaves only the file that marks its
    beginning, and one whose disk is full a file that names the error."""
    recording = Recording(communicator)
    recording.read_clocks()
    recording.start()
    if not _recordings:
        (Path(folder) / f"{communicator.rank}.begun").touch()
        atexit.register(_leave, Path(folder) / f"{communicator.rank}.npz", os.getpid())
    _recordings.append(recording)


def _leave(path: Path, process: int) -> None:
    if os.getpid() != process:  # a fork of the rank
        return
    parts = [part for recording in _recordings for part in recording.stop()]
    columns: dict[str, Any] = {
        f"{i}.{name}": getattr(part.recorded, name) for i, part in enumerate(parts) for name in COLUMNS
    }
    recorded = [
        {
            "group": part.group,
            "members": part.members,
            "calls": part.recorded.calls,
            "dropped": part.recorded.dropped,
            "programs": list(part.programs.items()),
            "what": part.what,
        }
        for part in parts
    ]
    first, data = _recordings[0], BytesIO()  # a zip that meets a full disk half-way fails again as it is closed
    written = {"facts": first.facts(), "hosts": first.hosts, "clocks": first.clocks, "parts": recorded}
    np.savez(data, parts=np.array(json.dumps(written)), **columns)
    begun = path.with_suffix(".begun")
    try:
        begun.write_bytes(data.getbuffer())
        begun.rename(path)
    except OSError as error:
        with suppress(OSError):  # the folder has gone: nobody asks any more
            os.truncate(begun, 0)
            begun.rename(path.with_suffix(f"{UNWRITTEN}{error.errno}"))


LaterReadings = Callable[[Sequence[int]], Sequence[ClockReading]]


def no_readings(hosts: Sequence[int]) -> Sequence[ClockReading]:
    """No clock was read after the ranks did."""
    return ()


class Gathered(NamedTuple):
    """The files that ranks left. `silent`: ranks that recorded and left none, for they were killed; `unwritten`: those
    that could not write theirs, by the reason."""

    trace: Trace
    silent: tuple[int, ...]
    unwritten: dict[str, list[int]]


def gather(folder: Path, ranks: int, group: str = "", later: LaterReadings = no_readings) -> Gathered | None:
    """The trace of all parts; channel 0 is the world, whose key is `group`: where that is not known, the first world of
    the ranks. None where no rank recorded anything. `later`: the clocks of other hosts, read after the ranks did so
    themselves, from the number of each rank's host."""
    files = [_read(path) for path in sorted(folder.glob("*.npz"))]
    parts = [part for file in files for part in file.parts]
    facts = dict(files[-1].facts) if files else {}
    silent = tuple(sorted(int(path.stem) for path in folder.glob("*.begun")))
    unwritten = _unwritten(folder)
    if not parts and not silent and not unwritten:
        return None
    if missing := sorted([*silent, *chain.from_iterable(unwritten.values())]):
        facts["missing"] = f"{'ranks' if len(missing) > 1 else 'rank'} {', '.join(map(str, missing))}"
    hosts = next((file.hosts for file in files if len(file.hosts) == ranks), [])
    clocks = NONE_APART
    if len(set(hosts)) > 1:
        until_s = {hosts[part.rank]: float(part.recorded.end_s.max(initial=0.0)) for part in parts}
        clocks = held_until(until_s, [reading for file in files for reading in file.clocks], later(hosts))
    trace = merge(ranks, parts, _world(parts, group), {"source": "measured", **facts}, hosts, clocks)
    return Gathered(trace, silent, unwritten)


def _unwritten(folder: Path) -> dict[str, list[int]]:
    """The ranks that could not write their recordings, by the reason."""
    found: dict[str, list[int]] = {}
    for path in sorted(folder.glob(f"*{UNWRITTEN}*"), key=lambda path: int(path.stem)):
        found.setdefault(os.strerror(int(path.suffix.removeprefix(UNWRITTEN))), []).append(int(path.stem))
    return found


def _world(parts: Sequence[RankRecording], group: str) -> str:
    """The key of the group of all ranks: `group`, if it was recorded, else that of the first world, else that of the
    group with the most members: of several, the one with the shortest key, from which the others were made."""
    if any(part.group == group for part in parts):
        return group
    first = (part.group for part in parts if part.group.endswith(FIRST_WORLD))
    largest = max(parts, key=lambda part: (len(part.members), -len(part.group)), default=None)
    return next(first, largest.group if largest else "")


class _File(NamedTuple):
    """A file that a rank left. `hosts`: of each rank; `clocks`: of other hosts, as rank 0 read them."""

    facts: dict[str, str]
    hosts: list[int]
    clocks: list[ClockReading]
    parts: list[RankRecording]


def _read(path: Path) -> _File:
    with np.load(path) as file:
        written = json.loads(str(file["parts"]))
        parts = [
            RankRecording(
                part["group"],
                int(path.stem),
                tuple(part["members"]),
                Recorded._make([*(file[f"{i}.{name}"] for name in COLUMNS), part["calls"], part["dropped"]]),
                dict(part["programs"]),
                part["what"],
            )
            for i, part in enumerate(written["parts"])
        ]
    clocks = [ClockReading(*reading) for reading in written["clocks"]]
    return _File(written["facts"], written["hosts"], clocks, parts)
