"""The bootstrap of a process group's members.

A group that is made from the default group needs no store: its members bootstrap as sub-groups of a communicator do.
Otherwise the first member makes a unique bootstrap key and writes it into torch's store, where the other members read
it. The store may still hold the key of an earlier attempt, or of an earlier group of that name. Nobody answers at such
a key, so a member that gets no answer reads the store again until the key changes.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from ringtree.errors import TimedOut
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import GroupParameters, default_engine
from ringtree.runtime.tuned import parameters_here
from ringtree.torch_backend.locality import Apart, Host, why_apart
from ringtree.torch_backend.waiting import Waiting

ANNOUNCED = "ringtree/announced"
"""The key of a group's store that holds its bootstrap key and the first member's host."""

CONNECTS_S = 1.0
"""Seconds that a member gets no answer at an announced key before it reports its host in the store."""

RETRY_S = 10.0
"""Seconds that a member waits for a new attempt after an attempt failed without it."""


class _Elsewhere(Exception):
    """The store holds another bootstrap key than the one that was read."""


@dataclass(frozen=True, slots=True)
class _Announced:
    """The store's entry: the bootstrap key, and the first member's host."""

    key: str
    host: Host


def join(
    store: Any, rank: int, ranks: Sequence[int], timeout_s: float, parent: Communicator | None = None
) -> Communicator:
    """This rank's communicator in a new group. `ranks`: the members' ranks in the world, in the order of the group;
    `rank`: this one's position there. `store` is the group's own. `parent`: a communicator of the world's ranks
        to make it from, where there is one."""
    members = tuple(map(int, ranks))
    if parent is not None:
        with (waiting := Waiting(store, parent, members, timeout_s)):
            return parent.group(members, timeout_s=timeout_s, check_liveness=waiting.check_liveness)
    joining = _Joining(store, rank, members, timeout_s)
    try:
        return joining.lead() if rank == 0 else joining.follow()
    except TimeoutError as late:
        raise TimedOut(str(late)) from None


class _Joining:
    """The steps by which one member joins a group."""

    def __init__(self, store: Any, rank: int, ranks: tuple[int, ...], timeout_s: float) -> None:
        self.store, self.rank, self.ranks, self.timeout_s = store, rank, ranks, timeout_s
        self.host = Host.here()

    def lead(self) -> Communicator:
        key = f"torch-{os.urandom(8).hex()}"
        if len(self.ranks) == 1:
            return self._communicator(key, lambda absent: None)
        self.store.set(ANNOUNCED, json.dumps(asdict(_Announced(key, self.host))))
        apart, reported = Apart(self.store, key), dict[int, Host]()

        def check_liveness(absent: list[int]) -> None:
            if not reported and (hosts := apart.hosts_of(absent)):
                reported.update(hosts)
                raise RuntimeError(why_apart(self.host, reported, self._named))

        try:
            return self._communicator(key, check_liveness)
        except Exception as error:
            with contextlib.suppress(RuntimeError):  # the store may be what failed
                self.store.set(_failed(key), json.dumps({"why": str(error), "reported": sorted(reported)}))
            raise

    def follow(self) -> Communicator:
        deadline_s = time.monotonic() + self.timeout_s
        while True:
            announced = self._announced(deadline_s)
            with contextlib.suppress(_Elsewhere):
                return self._communicator(announced.key, self._look(announced, deadline_s))

    def _announced(self, deadline_s: float) -> _Announced:
        try:
            self.store.wait([ANNOUNCED], timedelta(seconds=max(deadline_s - time.monotonic(), 0.001)))
        except RuntimeError:
            if time.monotonic() < deadline_s:
                raise  # not the time: the store itself
            raise self._late() from None
        fields = json.loads(self.store.get(ANNOUNCED))
        return _Announced(**{**fields, "host": Host(**fields["host"])})

    def _look(self, announced: _Announced, deadline_s: float) -> Callable[[list[int]], None]:
        """Returns the liveness check of a member that gets no answer at the announced key."""
        began_s, apart, failed = time.monotonic(), Apart(self.store, announced.key), _failed(announced.key)
        surely, wrote = self.host.surely_apart(announced.host), False
        over: bool | None = None  # before this member came: it was another attempt's, or this one comes too late

        def check_liveness(absent: list[int]) -> None:
            nonlocal wrote, over
            if not absent:  # the first is there, and waits for the others
                return
            now_s = time.monotonic()
            if over is None:
                over = bool(self.store.check([failed]))
            if not wrote and (surely or now_s > began_s + CONNECTS_S):
                apart.report(self.rank, self.host)
                wrote = True
            if json.loads(self.store.get(ANNOUNCED))["key"] != announced.key:
                raise _Elsewhere
            if over or self.store.check([failed]):
                end = json.loads(self.store.get(failed))
                if self.rank in end["reported"] and not over:
                    raise RuntimeError(end["why"])
                if now_s > began_s + RETRY_S:
                    raise RuntimeError(
                        f"{self._named([0])} gave up before {self._named([self.rank])} came: {end['why']}"
                    )
            if now_s > deadline_s:
                raise self._late()

        return check_liveness

    def _communicator(self, key: str, check_liveness: Callable[[list[int]], None]) -> Communicator:
        names = tuple(map(str, self.ranks))
        cost = parameters_here() if self.rank == 0 else None
        parameters = GroupParameters(key, self.rank, names, self.timeout_s, check_liveness=check_liveness, cost=cost)
        return Communicator(default_engine(len(names)), parameters)

    def _late(self) -> TimeoutError:
        return TimeoutError(
            f"{self._named([0])} did not come to the group of {len(self.ranks)} ranks within {self.timeout_s:g} s "
            f"(waited for by {self._named([self.rank])})"
        )

    def _named(self, members: Sequence[int]) -> str:
        names = ", ".join(str(self.ranks[m]) for m in members)
        return f"rank {names}" if len(members) == 1 else f"ranks {names}"


def _failed(key: str) -> str:
    return f"ringtree/{key}/failed"
