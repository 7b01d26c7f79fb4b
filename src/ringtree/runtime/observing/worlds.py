"""Worlds of ranks of this user's on this machine, as their memory shows them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ringtree.runtime.engines.engine import native_module
from ringtree.runtime.observing.own_processes import (
    HeldMemory,
    command_of,
    is_stopped,
    number_inside,
    shared_memories,
    space_of,
    start_of,
)


@dataclass(frozen=True, slots=True)
class LongWait:
    """A wait of more than 50 ms; times by the monotonic clock. `peer`: the rank waited for, None for any; `where`: as
    in "all_reduce, call 17"; `group`: the members of a group made from the world, "" in the world itself."""

    since_ns: int
    deadline_ns: int
    peer: int | None
    thread: int
    where: str
    group: str


@dataclass(frozen=True, slots=True)
class ObservedRank:
    """A rank of a world. `state`: absent (not here yet, or on another host), running, stopped (by a signal, or a
    debugger), left, lost (out of reach) or ended. `pid`: None where it is not on this host. `calls`: collectives that
    it has begun in the world, the `last` of them as text, where it can be read."""

    rank: int
    state: str
    pid: int | None
    calls: int
    last: str | None
    waits: tuple[LongWait, ...]


@dataclass(frozen=True, slots=True)
class ObservedWorld:
    """A group that is made from no other. `job`: its name for commands, after the inode of its memory. `command`: of
    its first rank here. `readable`: false where another version of ringtree made it: only `holders` is known then."""

    job: str
    command: str
    readable: bool
    failure: str
    ranks: tuple[ObservedRank, ...]
    holders: tuple[int, ...]

    def stragglers(self) -> tuple[int, ...]:
        """The ranks that others wait for and that are stopped, or in no long wait themselves: who holds up the rest."""
        waited = {wait.peer for rank in self.ranks for wait in rank.waits if wait.peer is not None}
        seen = [self.ranks[rank] for rank in sorted(waited) if rank < len(self.ranks)]
        return tuple(rank.rank for rank in seen if rank.state == "stopped" or not rank.waits)


def worlds() -> list[ObservedWorld]:
    """The worlds that run, the first process's first."""
    return [world for memory in shared_memories() for world in (_world(memory),) if world is not None]


def _world(memory: HeldMemory) -> ObservedWorld | None:
    seen = None
    for path in memory.holders.values():
        with suppress(OSError):  # that process has ended
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                status = os.fstat(descriptor)
                if (status.st_dev, status.st_ino) == memory.key:
                    seen = native_module().observe(descriptor)
            finally:
                os.close(descriptor)
            break
    if seen is None or _in_threads(seen["members"]):
        return None
    ranks = tuple(_rank(rank, member, memory.holders) for rank, member in enumerate(seen["members"]))
    first = next((rank.pid for rank in ranks if rank.pid is not None), min(memory.holders))
    return ObservedWorld(
        f"w{memory.key[1]}", command_of(first), seen["readable"], seen["failure"], ranks, tuple(sorted(memory.holders))
    )


def _in_threads(members: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the ranks are threads of one process, which do not say when it began."""
    here = [member for member in members if member["process"]]
    return bool(here) and not any(member["process_start"] for member in here)


def _rank(rank: int, member: Mapping[str, Any], holders: Mapping[int, str]) -> ObservedRank:
    pid = _pid_here(member, holders) if member["process"] else None
    state = member["state"]
    if state == "attached":
        state = "ended" if pid is None else "stopped" if is_stopped(pid) else "running"
    return ObservedRank(
        rank, state, pid, member["calls"], member["last"], tuple(_waits(member["waits"])) if pid is not None else ()
    )


def _waits(waits: Sequence[Mapping[str, Any]]) -> list[LongWait]:
    made = [
        LongWait(
            w["since_ns"], w["deadline_ns"], None if w["peer"] < 0 else w["peer"], w["thread"], w["where"], w["group"]
        )
        for w in waits
    ]
    return sorted(made, key=lambda wait: wait.since_ns)


def _pid_here(member: Mapping[str, Any], holders: Mapping[int, str]) -> int | None:
    """The number of a member's process as this process knows it: a container's ranks know others of themselves."""
    for pid in holders:
        mine = space_of(pid) == member["process_space"] or member["process_space"] == 0
        if mine and number_inside(pid) == member["process"] and start_of(pid) == member["process_start"]:
            return pid
    return None
