"""The process group as torch.distributed knows it: torch's class, with our families of calls before it."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from ringtree.runtime.communicator import Communicator
from ringtree.torch_backend import flight_recorder
from ringtree.torch_backend.alarm import Alarm
from ringtree.torch_backend.collectives import Collectives
from ringtree.torch_backend.flight_recorder import Recorder
from ringtree.torch_backend.memory import Memory
from ringtree.torch_backend.messages import Messages
from ringtree.torch_backend.registration import NAME

LEAVE_S = 10.0
"""How long a rank that leaves still takes part in what it began."""


class ProcessGroup(Collectives, Messages, Memory, dist.ProcessGroup):
    """A group for torch up to 2.13, which takes a whole process group from a backend written in Python and asks it for
    what its own would answer from C++: names, devices, the backend of a device."""

    def __init__(self, communicator: Communicator, options: Any) -> None:
        super().__init__(communicator.rank, communicator.size)
        self._open(communicator, Recorder(communicator, self.name(), options.timeout.total_seconds()))
        self._store = options.store
        self._alarm: Alarm | None = None  # the default group's only

    @property
    def communicator(self) -> Communicator:
        return self._communicator

    def listen(self) -> None:
        """Dumps the flight recorder when a call fails on any of these ranks. All call it."""
        if self._size > 1 and flight_recorder.RING.maxlen:
            self._alarm = Alarm(self._communicator)

    # -- what torch asks

    @property
    def group_name(self) -> str:
        return self._recorder.name

    @property
    def group_desc(self) -> str:
        return self._recorder.description

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def _set_group_name(self, name: str) -> None:
        self._recorder.name = name

    def _set_group_desc(self, description: str) -> None:
        self._recorder.description = description

    def _get_backend(self, device: torch.device) -> ProcessGroup:
        return self

    def name(self) -> str:
        return NAME

    getBackendName = _get_backend_name = name

    def rank(self) -> int:
        return self._rank

    getRank = rank

    def size(self) -> int:
        return self._size

    getSize = size

    def get_group_store(self) -> Any:
        return self._store

    # -- its end

    def shutdown(self) -> None:
        """Leaves the group, for which nobody else is needed, once what was begun has ended; it need not all end."""
        if self._alarm is not None:
            self._alarm.close()
        self._leave(LEAVE_S)
