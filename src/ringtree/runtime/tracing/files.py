"""The recordings of `ringtree run --trace` on their way to the launcher: a file a rank, in a folder."""

from __future__ import annotations

import atexit
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ringtree.ir.trace import Trace
from ringtree.runtime.engines.protocols import Recorded
from ringtree.runtime.tracing.parts import RankRecording, merge
from ringtree.runtime.tracing.tracing import Recording

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator

COLUMNS = Recorded._fields[:-2]
FIRST_WORLD = "/init1"
"""The end of the key of a process's first world."""

_recordings: list[Recording] = []


def record_until_exit(communicator: Communicator, folder: Path) -> None:
    """Records this world, and the groups made from it. Writes the recording to `folder` when this process ends; a
    killed process leaves only the file that marks its beginning."""
    recording = Recording(communicator)
    recording.start()
    if not _recordings:
        (folder / f"{communicator.rank}.begun").touch()
        atexit.register(_leave, folder / f"{communicator.rank}.npz", os.getpid())
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
    begun = path.with_suffix(".begun")
    with begun.open("wb") as file:
        np.savez(file, parts=np.array(json.dumps({"facts": _recordings[0].facts(), "parts": recorded})), **columns)
    begun.rename(path)


class Gathered(NamedTuple):
    """The files that ranks left. `silent`: ranks that recorded and left none, for they were killed."""

    trace: Trace
    silent: tuple[int, ...]


def gather(folder: Path, ranks: int, group: str = "") -> Gathered | None:
    """The trace of all parts; channel 0 is the world, whose key is `group`: where that is not known, the first world of
    the ranks. None where no rank recorded anything."""
    parts: list[RankRecording] = []
    facts: dict[str, str] = {}
    for path in sorted(folder.glob("*.npz")):
        facts, mine = _read(path)
        parts += mine
    silent = tuple(sorted(int(path.stem) for path in folder.glob("*.begun")))
    if not parts and not silent:
        return None
    if silent:
        facts["missing"] = f"{'ranks' if len(silent) > 1 else 'rank'} {', '.join(map(str, silent))}"
    group = group or next((part.group for part in parts if part.group.endswith(FIRST_WORLD)), "")
    return Gathered(merge(ranks, parts, group, {"source": "measured", **facts}), silent)


def _read(path: Path) -> tuple[dict[str, str], list[RankRecording]]:
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
    return written["facts"], parts
