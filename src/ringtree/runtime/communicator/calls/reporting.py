"""The lines that rank 0 prints of its group and its calls where RINGTREE_DEBUG asks for it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringtree.runtime.communicator.calls.binding import BoundPlan
    from ringtree.runtime.engines.engine import GroupParameters, JoinedGroup
    from ringtree.runtime.types import Dtype

LOGS = ("info", "trace")


def debug_of(env: Mapping[str, str]) -> bool:
    """Whether calls are logged: RINGTREE_DEBUG. ValueError: for a word that is none of its own."""
    given = env.get("RINGTREE_DEBUG") or ""
    if given and given not in LOGS:
        raise ValueError(f"RINGTREE_DEBUG is {given!r}: expected info, or trace for a command's tracebacks as well")
    return bool(given)


def group(joined: JoinedGroup, engine: str, parameters: GroupParameters) -> None:
    """Prints the ranks, their engine, and where they are."""
    shared = ", more ranks than cores" if parameters.ranks > joined.cores else ""
    where = f"{len(set(joined.hosts))} hosts" if joined.network else "one machine"
    _log(
        f"{parameters.ranks} ranks ({', '.join(parameters.names)}) on {where}, {joined.cores} cores{shared}; "
        f"engine {engine}, {joined.slots} slots of {joined.slot_bytes} bytes a rank"
    )
    if joined.devices:
        _log(f"ranks on {len(set(joined.devices.device_of))} devices; costs by {joined.devices.source}")
    if joined.nodes:
        _log(f"ranks on {len(set(joined.nodes))} NUMA nodes: {', '.join(map(str, joined.nodes))}")
    if joined.speed < 1:
        _log(f"the slowest core has {joined.speed:.0%} of the fastest one's speed; calls are priced by it")


def plan(bound: BoundPlan, dtype: Dtype, root: int, count: int) -> None:
    """Prints the program of a kind of call, and why it was chosen."""
    p = bound.part.program
    where = f", root {root}" if root >= 0 else ""
    _log(
        f"{p.collective} of {count * dtype.itemsize} bytes ({dtype.label}{where}) over {p.ranks} ranks: {p.name}, "
        f"program {p.digest()}, because {bound.why}"
    )


def _log(text: str) -> None:
    print(f"ringtree: {text}", file=sys.stderr, flush=True)
