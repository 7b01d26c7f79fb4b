"""The process group as torch.distributed knows it: torch's class, with our families of calls before it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ringtree.runtime.communicator.communicator import Communicator
from ringtree.torch_backend.calls.administration import Administration
from ringtree.torch_backend.calls.collectives import GroupCollectives
from ringtree.torch_backend.calls.messages import GroupMessages
from ringtree.torch_backend.calls.monitoring import MonitoredBarrier
from ringtree.torch_backend.creation import join
from ringtree.torch_backend.memory import CommunicationBuffers

CPU = torch.device("cpu")


class ProcessGroup(
    GroupCollectives, GroupMessages, MonitoredBarrier, CommunicationBuffers, Administration, dist.ProcessGroup
):
    """A group for torch up to 2.13, which takes a whole process group from a backend written in Python and asks it for
    what its own would answer from C++: names, devices, the backend of a device."""

    def __init__(self, communicator: Communicator, store: Any, timeout: timedelta) -> None:
        super().__init__(communicator.rank, communicator.size)
        self._begin(communicator, store, timeout.total_seconds())

    @property
    def group_name(self) -> str:
        """The name that torch gave the group."""
        return self._recorder.name

    @property
    def group_desc(self) -> str:
        """The description that the program gave the group."""
        return self._recorder.description

    def _set_group_desc(self, description: str) -> None:
        self._recorder.description = description

    @property
    def _device_types(self) -> list[torch.device]:
        return [CPU]

    def _get_backend(self, device: torch.device) -> ProcessGroup:
        if torch.device(device).type != CPU.type:
            raise RuntimeError(f"{self!r} has no backend for {device}: it serves tensors of the CPU")
        return self

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
        found = dist.TCPStore(host, int(port), is_master=False, wait_for_workers=False, timeout=timeout)
        store = dist.PrefixStore(prefix, found)
        communicator = join(store, rank, range(world_size), self._recorder.timeout_s)
        name, description = self._recorder.name, self._recorder.description
        self._begin(communicator, store, self._recorder.timeout_s)
        self._recorder.name, self._recorder.description = name, description
        self.listen()
