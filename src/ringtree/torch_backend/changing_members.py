"""Groups that go on with other members: what torchft asks for, and what torch 2.14 calls reconfiguring."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any
from uuid import uuid4

import torch.distributed as dist

from ringtree.torch_backend.calls.administration import Administration
from ringtree.torch_backend.creation import join
from ringtree.torch_backend.works.work import GroupWork, done


class ChangingMembers(Administration):
    """The two ways in which a group's members change. Calls under way end with an error; an aborted group works again.
    Neither needs a word of those who are gone."""

    supports_reconfigure = True
    _handle = ""
    _uuids: frozenset[int] = frozenset()
    _first_store: Any = None

    def configure(self, store_addr: str, replica_id: str, rank: int, world_size: int, *more: Any) -> None:
        """Replaces the group by another, whose ranks all call this; torchft does so when a replica comes or goes.
        `store_addr`: `host:port/prefix` of a TCPStore, with a prefix that no group had before. `replica_id` and `more`
        are torchft's for its own records."""
        timeout = timedelta(seconds=self._recorder.timeout_s)
        address, _, prefix = store_addr.partition("/")
        host, _, port = address.rpartition(":")
        if not (host and port.isdigit()):
            raise ValueError(f"store_addr is {store_addr!r}; expected host:port/prefix")
        self._leave(0.0)
        libuv = os.environ.get("USE_LIBUV", "1") == "1"  # as for stores that torch makes itself
        found = dist.TCPStore(
            host, int(port), is_master=False, wait_for_workers=False, timeout=timeout, use_libuv=libuv
        )
        self._meet(dist.PrefixStore(prefix, found), rank, world_size, self._recorder.timeout_s)

    def get_reconfigure_handle(self) -> str:
        """This process's name among the handles that `reconfigure` takes, the same as long as the group lives."""
        self._handle = self._handle or uuid4().hex
        return self._handle

    def reconfigure(self, opts: Any) -> GroupWork:
        """Replaces the group by one of the processes whose handles `opts` lists, in that order, or sorted where it is a
        set; all of them call this with the same `uuid`, which no change of this group had before. They meet in the
        store that the group was made with. Returns when all have met."""
        handles = list(opts.handles) if isinstance(opts.handles, list) else sorted(opts.handles)
        own = self.get_reconfigure_handle()
        if own not in handles:
            raise ValueError(f"reconfigure: this process's handle {own} is not among the {len(handles)} given")
        if opts.uuid in self._uuids:
            raise RuntimeError(f"reconfigure: uuid {opts.uuid} was already used by this group; expected another")
        self._uuids |= {opts.uuid}
        self._first_store = self._first_store or self._store
        timeout_s = opts.timeout.total_seconds() if opts.timeout else self._recorder.timeout_s
        self._leave(0.0)
        store = dist.PrefixStore(f"reconfigure/{opts.uuid}", self._first_store)
        self._meet(store, handles.index(own), len(handles), timeout_s)
        return done([], self._callbacks)

    def _meet(self, store: Any, rank: int, ranks: int, meeting_s: float) -> None:
        name, description, timeout_s = self._recorder.name, self._recorder.description, self._recorder.timeout_s
        communicator = join(store, rank, range(ranks), meeting_s)
        communicator.set_timeout(timeout_s)
        self._begin(communicator, store, timeout_s)
        self._recorder.name, self._recorder.description = name, description
        self.listen()
