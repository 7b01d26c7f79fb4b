"""This machine's processor in the place of a device: the same programs by the same interpreter, in memory of the host.

It is there to be tested, where no device is; the engine for arrays of the host is `shm`."""

from __future__ import annotations

import mmap
import os
from ctypes import addressof, c_char, memmove, string_at
from typing import TYPE_CHECKING, Any

from ringtree.runtime.engines.device.element_types import DeviceTypes
from ringtree.runtime.engines.device.lanes import ENDED_IN_STATUS, STATUS
from ringtree.runtime.engines.device.processor import Ending, Launched
from ringtree.runtime.engines.device.shared_mapping import map_shared
from ringtree.runtime.engines.engine import GroupParameters, native_module

if TYPE_CHECKING:
    from ringtree.price import Devices

BLOCKS = 2
"""Each a share of every chunk, as on a device, one after the other."""


class EmulatedProcessor:
    """Calls run in the caller's thread, to their end."""

    runs_ahead = False
    costs: Devices | None = None
    takes_turns = False
    least_lying_bytes = 0
    most_flagged_bytes = 1 << 14  # two blocks at most, so that tests of more bytes reach other messages
    tolls = 0
    stop_word = ended_word = 0

    def __init__(self, parameters: GroupParameters) -> None:
        self.blocks = BLOCKS
        self._parameters = parameters
        self._shared = 0
        self._maps: list[mmap.mmap] = []
        self._words = self.take(4096)
        self.native = native_module().DeviceCalls(parameters.ranks, self._words)

    def take(self, nbytes: int) -> int:
        """See DeviceProcessor."""
        memory = mmap.mmap(-1, max(nbytes, 1))
        self._maps.append(memory)
        return addressof(c_char.from_buffer(memory))

    def share(self, nbytes: int) -> list[int]:
        """See DeviceProcessor."""
        self._shared += 1
        parameters = self._parameters
        group = parameters.bootstrap_group()._replace(key=f"{parameters.key}/shared{self._shared}")
        fd, _ = parameters.bootstrap.share(group, nbytes * parameters.ranks)
        try:
            base = map_shared(fd, nbytes * parameters.ranks, self)
        finally:
            os.close(fd)
        return [base + rank * nbytes for rank in range(parameters.ranks)]

    def write(self, address: int, data: bytes) -> None:
        """See DeviceProcessor."""
        memmove(address, data, len(data))

    def read(self, address: int, nbytes: int) -> bytes:
        """See DeviceProcessor."""
        return string_at(address, nbytes)

    @property
    def status(self) -> int:
        """See DeviceProcessor."""
        return self._words

    def ending(self) -> Ending:
        """See DeviceProcessor."""
        return Ending(*STATUS.unpack(self.read(self._words, STATUS.size)))

    def stop(self) -> None:
        """See DeviceProcessor."""
        self.native.stopped = True
        self.write(self.stop_word, bytes((1, 0, 0, 0)))

    def look(self) -> None:
        """See DeviceProcessor."""
        memmove(self._words + ENDED_IN_STATUS, self.ended_word, 4)

    def awaits(self, peer: int) -> bool:
        """See DeviceProcessor."""
        return False

    def launch(self, call: bytes, plan: Launched) -> None:
        """See DeviceProcessor."""
        self.native.run_first(call, plan.announced)

    def kernel(self, types: DeviceTypes | None, flagged: bool) -> int:
        """See DeviceProcessor."""
        return 0

    def mark(self) -> Any:
        """See DeviceProcessor."""
        return None

    def reached(self, mark: Any) -> bool:
        """See DeviceProcessor."""
        return True

    def await_mark(self, mark: Any) -> None:
        """See DeviceProcessor."""

    def close(self) -> None:
        """See DeviceProcessor."""
