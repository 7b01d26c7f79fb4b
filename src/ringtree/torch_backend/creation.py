"""The bootstrap of a process group's members.

A group that is made from the default group needs no store: its members bootstrap as sub-groups of a communicator do.
Otherwise the first member makes a unique bootstrap key and writes it into torch's store, where the other members read
it. The store may still hold the key of an earlier attempt, or of an earlier group of that name. Nobody answers at such
a key, so a member that gets no answer reads the store again until the key changes.

The members try to meet as those of one machine do. If one of them reports that it cannot reach the first, the first
changes the key, and all meet over hosts: at a server of the first member, whose address and secret are in the store
until all have met.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ringtree.errors import TimedOut
from ringtree.runtime.bootstrap.bootstrap import Abandoned
from ringtree.runtime.bootstrap.environment import detect, trace_folder
from ringtree.runtime.bootstrap.local.abstract_socket import ABSTRACT_SOCKET
from ringtree.runtime.bootstrap.network.hosts import MultiHostBootstrap
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import GroupParameters, default_engine
from ringtree.runtime.tracing.files import record_until_exit
from ringtree.runtime.tuned import tuned_here
from ringtree.torch_backend.announcing import ANNOUNCED, Announced, StoreEntry
from ringtree.torch_backend.locality import Apart, Host
from ringtree.torch_backend.waiting import Waiting

if TYPE_CHECKING:
    from ringtree.runtime.bootstrap.protocols import HostBootstrap

CONNECTS_S = 1.0
"""Seconds that a member gets no answer at an announced key before it reports that it is apart."""
STORE_CLOCK_S = 0.01
"""Seconds by which a store's wait may end too early: it counts whole milliseconds."""

RETRY_S = 10.0
"""Seconds that a member waits for a new attempt after an attempt failed without it."""

_hosts: WeakKeyDictionary[Communicator, MultiHostBootstrap] = WeakKeyDictionary()
"""The way to other hosts of a communicator that was made without a parent."""


def join(
    store: Any, rank: int, ranks: Sequence[int], timeout_s: float, parent: Communicator | None = None
) -> Communicator:
    """This rank's communicator in a new group. `ranks`: the members' ranks in the world, in the order of the group;
    `rank`: this one's position there. `store` is the group's own. `parent`: a communicator of the world's ranks to make
    it from, where there is one. `leave` ends it. Under `ringtree run --trace` a group of all ranks is recorded."""
    members = tuple(map(int, ranks))
    if parent is not None:
        with (waiting := Waiting(store, parent, members, timeout_s)):
            return parent.group(members, timeout_s=timeout_s, check_liveness=waiting.check_liveness)
    joining = _Joining(store, rank, members, timeout_s)
    try:
        made = joining.lead() if rank == 0 else joining.follow()
    except TimeoutError as late:
        raise TimedOut(str(late)) from None
    if (folder := trace_folder()) and len(members) == detect(meets=True).size:
        record_until_exit(made, folder)
    return made


def leave(communicator: Communicator) -> None:
    """Closes a communicator that `join` returned. Over hosts no group can then be made from it by this rank."""
    hosts = _hosts.pop(communicator, None)
    try:
        communicator.close()
    finally:
        if hosts is not None:
            hosts.leave()


class _Joining:
    """The steps by which one member joins a group."""

    def __init__(self, store: Any, rank: int, ranks: tuple[int, ...], timeout_s: float) -> None:
        self.store, self.rank, self.ranks, self.timeout_s = store, rank, ranks, timeout_s
        self.names = tuple(map(str, ranks))
        self.host = Host.here()
        self.deadline_s = time.monotonic() + timeout_s

    def lead(self) -> Communicator:
        entry = Announced(_fresh(), self.host)
        if len(self.ranks) == 1:
            return self._communicator(entry.key, None)
        entry.write(self.store)
        apart, over_hosts = Apart(self.store, entry.key), Announced(_fresh(), self.host, over_hosts=True)

        def check_liveness(absent: list[int]) -> None:
            if apart.any_of(absent):
                over_hosts.write(self.store)
                raise Abandoned("the ranks are on several hosts")

        try:
            try:
                return self._communicator(entry.key, check_liveness)
            except Abandoned:
                entry = over_hosts
                return self._over_hosts(entry)
        except Exception as error:
            with contextlib.suppress(RuntimeError):  # the store may be what failed
                self.store.set(_failed(entry.key), str(error))
            raise

    def follow(self) -> Communicator:
        while True:
            entry = self._announced()
            with contextlib.suppress(Abandoned):
                if entry.over_hosts:
                    return self._over_hosts(entry)
                return self._communicator(entry.key, self._look(entry))

    def _announced(self) -> Announced:
        try:
            self.store.wait([ANNOUNCED], timedelta(seconds=max(self.deadline_s - time.monotonic(), 0.001)))
        except RuntimeError:
            if time.monotonic() < self.deadline_s - STORE_CLOCK_S:
                raise  # not the time: the store itself
            raise self._late() from None
        return Announced.read(self.store)

    def _look(self, announced: Announced) -> Callable[[list[int]], None]:
        """Returns the liveness check of a member that gets no answer at the announced key."""
        began_s, surely, wrote = time.monotonic(), self.host.surely_apart(announced.host), False
        failed = self._failure_before(announced)

        def check_liveness(absent: list[int]) -> None:
            nonlocal wrote
            if not absent:  # the first is there, and waits for the others
                return
            if not wrote and (surely or time.monotonic() > began_s + CONNECTS_S):
                Apart(self.store, announced.key).report(self.rank, surely)
                wrote = True
            if Announced.read(self.store).key != announced.key:
                raise Abandoned("the store's entry is another attempt's")
            failed()

        return check_liveness

    def _failure_before(self, announced: Announced) -> Callable[[], None]:
        """Returns a check that raises where the announced attempt has failed without this member and no other one
        begins, or the time is over."""
        began_s, failed = time.monotonic(), _failed(announced.key)

        def check() -> None:
            now_s = time.monotonic()
            if now_s > began_s + RETRY_S and self.store.check([failed]):
                why = bytes(self.store.get(failed)).decode()
                raise RuntimeError(f"{self._named(0)} gave up before {self._named(self.rank)} came: {why}")
            if now_s > self.deadline_s:
                raise self._late()

        return check

    def _over_hosts(self, announced: Announced) -> Communicator:
        """The communicator of members on several hosts."""
        board = StoreEntry(self.store, announced, self._failure_before(announced))
        left_s = max(self.deadline_s - time.monotonic(), 0.1)
        hosts = MultiHostBootstrap(board, self.rank, len(self.ranks), left_s, names=self.names)
        made: Communicator | None = None
        try:
            with hosts.setting_up(announced.key, left_s) as check_liveness:
                made = self._communicator(announced.key, check_liveness, hosts)
        except BaseException:
            if made is not None:  # another member failed at the very end
                made.close()
            hosts.leave()
            hosts.close()
            raise
        _hosts[made] = hosts
        return made

    def _communicator(
        self, key: str, check_liveness: Callable[[list[int]], None] | None, bootstrap: HostBootstrap = ABSTRACT_SOCKET
    ) -> Communicator:
        measured = tuned_here() if self.rank == 0 else None
        parameters = GroupParameters(
            key,
            self.rank,
            self.names,
            self.timeout_s,
            check_liveness=check_liveness,
            cost=measured.parameters if measured else None,
            network=measured.network if measured else None,
            bootstrap=bootstrap,
            takes_turns=True,
        )
        return Communicator(default_engine(len(self.names)), parameters)

    def _late(self) -> TimeoutError:
        return TimeoutError(
            f"{self._named(0)} did not come to the group of {len(self.ranks)} ranks within {self.timeout_s:g} s "
            f"(waited for by {self._named(self.rank)})"
        )

    def _named(self, member: int) -> str:
        return f"rank {self.ranks[member]}"


def _fresh() -> str:
    return f"torch-{os.urandom(8).hex()}"


def _failed(key: str) -> str:
    return f"ringtree/{key}/failed"
