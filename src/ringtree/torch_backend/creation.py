"""How a process group's members find each other: through torch's store first, then as every group of ringtree does.

The first member makes up the place where they meet, which nobody else ever had, and writes it into the store; the
others read it there and go. A store may hold what an earlier attempt left, or an earlier group of that name: at its
place nobody answers, so whoever goes there looks into the store again, until there is another.
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
from ringtree.runtime.communicator import Communicator
from ringtree.runtime.engine import Terms, default_engine
from ringtree.runtime.tuned import figures_here
from ringtree.torch_backend.locality import Apart, Host, why_apart

PLACE = "ringtree/place"
"""The key under which a group's store says where its members meet."""

CONNECTS_S = 1.0
"""So long a member may find nobody at a place that is announced before it says so."""

RETRY_S = 10.0
"""So long a new attempt is waited for after one is found to have failed without this member."""


class _Elsewhere(Exception):
    """The members meet at another place than the one that was read."""


@dataclass(frozen=True, slots=True)
class _Announced:
    """What the store says. `parent`: the place of the communicator that the group is made from, "" for none."""

    place: str
    parent: str
    host: Host


def join(
    store: Any, rank: int, ranks: Sequence[int], timeout_s: float, parent: Communicator | None = None
) -> Communicator:
    """This rank's communicator in a new group. `ranks`: the members' ranks in the world, in the order of the group;
    `rank`: this one's place among them. `store` is the group's own. `parent`: a communicator of the world's ranks
    to make it from, where there is one."""
    meeting = _Meeting(store, rank, tuple(map(int, ranks)), timeout_s, parent)
    try:
        return meeting.lead() if rank == 0 else meeting.follow()
    except TimeoutError as late:
        raise TimedOut(str(late)) from None


class _Meeting:
    """One member's way into a group."""

    def __init__(
        self, store: Any, rank: int, ranks: tuple[int, ...], timeout_s: float, parent: Communicator | None
    ) -> None:
        self.store, self.rank, self.ranks, self.timeout_s, self.parent = store, rank, ranks, timeout_s, parent
        self.host = Host.here()

    def lead(self) -> Communicator:
        place = f"torch-{os.urandom(8).hex()}"
        parent = self.parent.place if self.parent else ""
        if len(self.ranks) == 1:
            return self._communicator(place, lambda absent: None)
        self.store.set(PLACE, json.dumps(asdict(_Announced(place, parent, self.host))))
        apart, heard = Apart(self.store, place), dict[int, Host]()

        def look(absent: list[int]) -> None:
            if not heard and (said := apart.look(absent)):
                heard.update(said)
                raise RuntimeError(why_apart(self.host, heard, self._named))

        try:
            return self._communicator(place, look)
        except Exception as error:
            with contextlib.suppress(RuntimeError):  # the store may be what failed
                self.store.set(_failed(place), json.dumps({"why": str(error), "heard": sorted(heard)}))
            raise

    def follow(self) -> Communicator:
        began_s = time.monotonic()
        deadline_s = began_s + self.timeout_s
        while True:
            announced = self._announced(deadline_s)
            if announced.parent and (self.parent is None or self.parent.place != announced.parent):
                if time.monotonic() < min(began_s + RETRY_S, deadline_s):  # it may be an earlier group's
                    time.sleep(0.002)
                    continue
                raise RuntimeError(
                    f"{self._named([0])} makes {self._named(range(len(self.ranks)))} a group of the default process "
                    "group, which this rank has not: every member makes it while the same default group is there"
                )
            if not announced.parent:
                self.parent = None
            with contextlib.suppress(_Elsewhere):
                return self._communicator(announced.place, self._look(announced, deadline_s))

    def _announced(self, deadline_s: float) -> _Announced:
        try:
            self.store.wait([PLACE], timedelta(seconds=max(deadline_s - time.monotonic(), 0.001)))
        except RuntimeError:
            if time.monotonic() < deadline_s:
                raise  # not the time: the store itself
            raise self._late() from None
        said = json.loads(self.store.get(PLACE))
        return _Announced(**{**said, "host": Host(**said["host"])})

    def _look(self, announced: _Announced, deadline_s: float) -> Callable[[list[int]], None]:
        """What a member does while nobody answers at the place that was announced."""
        began_s, apart, failed = time.monotonic(), Apart(self.store, announced.place), _failed(announced.place)
        surely, said = self.host.surely_apart(announced.host), False
        over: bool | None = None  # before this member came: it was another attempt's, or this one comes too late

        def look(absent: list[int]) -> None:
            nonlocal said, over
            if not absent:  # the first is there, and waits for the others
                return
            now_s = time.monotonic()
            if over is None:
                over = bool(self.store.check([failed]))
            if not said and (surely or now_s > began_s + CONNECTS_S):
                apart.say(self.rank, self.host)
                said = True
            if json.loads(self.store.get(PLACE))["place"] != announced.place:
                raise _Elsewhere
            if over or self.store.check([failed]):
                end = json.loads(self.store.get(failed))
                if self.rank in end["heard"] and not over:
                    raise RuntimeError(end["why"])
                if now_s > began_s + RETRY_S:
                    raise RuntimeError(
                        f"{self._named([0])} gave up before {self._named([self.rank])} came: {end['why']}"
                    )
            if now_s > deadline_s:
                raise self._late()

        return look

    def _communicator(self, place: str, look: Callable[[list[int]], None]) -> Communicator:
        if self.parent is not None:
            return self.parent.group(self.ranks, label=place, timeout_s=self.timeout_s, look=look)
        names = tuple(map(str, self.ranks))
        figures = figures_here() if self.rank == 0 else None
        terms = Terms(place, self.rank, names, self.timeout_s, look=look, figures=figures)
        return Communicator(default_engine(len(names)), terms)

    def _late(self) -> TimeoutError:
        return TimeoutError(
            f"{self._named([0])} did not come to the group of {len(self.ranks)} ranks within {self.timeout_s:g} s "
            f"(waited for by {self._named([self.rank])})"
        )

    def _named(self, members: Sequence[int]) -> str:
        names = ", ".join(str(self.ranks[m]) for m in members)
        return f"rank {names}" if len(members) == 1 else f"ranks {names}"


def _failed(place: str) -> str:
    return f"ringtree/{place}/failed"
