"""The trace of a job: what its ranks recorded, in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ringtree.formats import chrome
from ringtree.runtime.launch.job import named
from ringtree.runtime.launch.launch import complain
from ringtree.runtime.launch.program import without_interpreter
from ringtree.runtime.tracing.files import LaterReadings, gather, no_readings


def recordings() -> TemporaryDirectory[str]:
    """A folder for the ranks' recordings, which is gone after the block."""
    return TemporaryDirectory(prefix="ringtree-trace-")


def write_trace(
    file: Path,
    folder: Path,
    ranks: int,
    words: Sequence[str],
    world: str = "",
    later: LaterReadings = no_readings,
) -> int:
    """Writes what the ranks recorded; returns 1 where there is nothing, or a rank could not write its part. `words`:
    started the program; `world`, `later`: as for gather."""
    gathered = gather(folder, ranks, world, later)
    if gathered is None:
        complain(f"{file} is not written: no rank called ringtree.init()")
        return 1
    for why, unable in gathered.unwritten.items():
        complain(f"{file} has nothing of {named(unable)}: a recording could not be written to {folder}: {why}")
    if gathered.silent:
        why = "a rank that is killed, or ends by os._exit or exec, leaves nothing"
        complain(f"{file} has nothing of {named(list(gathered.silent))}: {why}")
    if dropped := gathered.trace.facts.get("dropped"):
        complain(f"{file} is incomplete: {dropped} events were dropped")
    name = " ".join(" ".join(without_interpreter(words)).split())  # code has lines
    chrome.write(replace(gathered.trace, facts={"name": name, **gathered.trace.facts}), file)
    return 1 if gathered.unwritten else 0
