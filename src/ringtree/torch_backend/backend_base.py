"""The group's calls for a torch that takes a backend for one device, written in Python, into its own process group:
`torch.distributed.BackendBase`, after 2.13. There `"cpu:ringtree,cuda:nccl"` is one group.

torch's C++ calls the methods by the families' names; a method that is not overridden raises that it is not supported.
https://docs.pytorch.org/docs/main/distributed/custom_backends.html
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as dist

from ringtree.runtime.communicator.communicator import Communicator
from ringtree.torch_backend.calls.administration import Administration
from ringtree.torch_backend.calls.collectives import GroupCollectives
from ringtree.torch_backend.calls.messages import GroupMessages
from ringtree.torch_backend.calls.monitoring import MonitoredBarrier
from ringtree.torch_backend.memory import CommunicationBuffers
from ringtree.torch_backend.registration import NAME
from ringtree.torch_backend.tensors import Tensors
from ringtree.torch_backend.works.work import GroupWork


class Backend(
    GroupCollectives, GroupMessages, MonitoredBarrier, CommunicationBuffers, Administration, dist.BackendBase
):
    """The backend for tensors of the CPU in a process group of torch's own."""

    def __init__(self, communicator: Communicator, store: Any, timeout: timedelta) -> None:
        super().__init__(communicator.rank, communicator.size)
        self._options = dist.BackendBase.Options(NAME, timeout)
        self._begin(communicator, store, timeout.total_seconds())

    @property
    def options(self) -> Any:
        """The options that the group was made with."""
        return self._options

    def allreduce_sparse(self, tensors: Tensors, opts: Any) -> GroupWork | None:
        """All-reduce of sparse tensors, in place."""
        return self.allreduce(tensors, opts)

    def supports_tensor_alloc(self, device: Any) -> bool:
        """True: the CPU. `device`: from torch's C++ it is a number, of the kind of device that this backend serves."""
        return isinstance(device, int) or super().supports_tensor_alloc(device)
