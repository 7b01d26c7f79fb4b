"""The process group as torch.distributed knows it: torch's class, with our families of calls before it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ringtree.runtime.communicator.communicator import Communicator
from ringtree.torch_backend.calls.collectives import GroupCollectives
from ringtree.torch_backend.calls.messages import GroupMessages
from ringtree.torch_backend.calls.monitoring import MonitoredBarrier
from ringtree.torch_backend.changing_members import ChangingMembers
from ringtree.torch_backend.memory import CommunicationBuffers

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


class ProcessGroup(
    GroupCollectives, GroupMessages, MonitoredBarrier, CommunicationBuffers, ChangingMembers, dist.ProcessGroup
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
        return [CPU, CUDA] if torch.cuda.is_available() else [CPU]

    def _get_backend(self, device: torch.device) -> ProcessGroup:
        served = [of.type for of in self._device_types]
        if torch.device(device).type not in served:
            raise RuntimeError(f"{self!r} has no backend for {device}: it serves tensors of {' and '.join(served)}")
        return self
