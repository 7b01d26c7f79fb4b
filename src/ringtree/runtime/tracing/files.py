"""The recordings of `ringtree run --trace` on their way to the launcher: a file a rank, in a folder."""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ringtree.ir.trace import Trace
from ringtree.runtime.engines.protocols import Recorded
from ringtree.runtime.tracing.clocks import AlignedClock
from ringtree.runtime.tracing.parts import NONE_APART, RankRecording, merge
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
    about = {"facts": _recordings[0].facts(), "hosts": _recordings[0].hosts, "parts": recorded}
    begun = path.with_suffix(".begun")
    with begun.open("wb") as file:
        np.savez(file, parts=np.array(json.dumps(about)), **columns)
    begun.rename(path)


class Gathered(NamedTuple):
    """The files that ranks left. `silent`: ranks that recorded and left none, for they were killed."""

    trace: Trace
    silent: tuple[int, ...]


Clocks = Callable[[Sequence[int]], Mapping[int, AlignedClock]]
"""The clocks of the hosts whose numbers the ranks have, but for rank 0's."""


def gather(folder: Path, ranks: int, group: str = "", clocks: Clocks = lambda hosts: NONE_APART) -> Gathered | None:
    """The trace of all parts; channel 0 is the world, whose key is `group`: where that is not known, the first world of
    the ranks. `clocks`: asked where ranks are on several hosts, whose times they correct. None where no rank
    recorded anything."""
    parts: list[RankRecording] = []
    facts, hosts = dict[str, str](), list[int]()
    for path in sorted(folder.glob("*.npz")):
        facts, hosts, mine = _read(path)
        parts += mine
    silent = tuple(sorted(int(path.stem) for path in folder.glob("*.begun")))
    if not parts and not silent:
        return None
    if silent:
        facts["missing"] = f"{'ranks' if len(silent) > 1 else 'rank'} {', '.join(map(str, silent))}"
    group = group or next((part.group for part in parts if part.group.endswith(FIRST_WORLD)), "")
    if len(hosts) != ranks:  # the first world had fewer ranks than the job
        hosts = [0] * ranks
    noted = {"source": "measured", **facts}
    return Gathered(
        merge(ranks, parts, group, noted, hosts, clocks(hosts) if len(set(hosts)) > 1 else NONE_APART), silent
    )


def _read(path: Path) -> tuple[dict[str, str], list[int], list[RankRecording]]:
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
    return written["facts"], written["hosts"], parts
