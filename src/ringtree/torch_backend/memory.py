"""Tensors in memory that a group shares, so that peers read them in place: FSDP2 can ask for its buffers here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.communicator.windows.heap import Heap
from ringtree.torch_backend.calls.launching import Launching
from ringtree.torch_backend.flight.recorder import FlightRecorder


class CommunicationBuffers(Launching):
    """Allocation for fully_shard, after `module.set_allocate_memory_from_process_group_for_comm(True)`."""

    def _open(self, communicator: Communicator, recorder: FlightRecorder) -> None:
        super()._open(communicator, recorder)
        self._heap = Heap(communicator)

    def supports_tensor_alloc(self, device: Any) -> bool:
        """Whether the backend allocates tensors on the device: CPU only."""
        return bool(torch.device(device).type == "cpu")

    def allocate_tensor(
        self, size: int | Sequence[int], dtype: torch.dtype | None = None, device: Any = None
    ) -> torch.Tensor:
        """An uninitialized tensor of shape `size`. All ranks make their first call together; later ones are this rank's
        own. An ordinary tensor where there is no shared memory (any more)."""
        shape = (size,) if isinstance(size, int) else tuple(size)
        wanted = dtype or torch.get_default_dtype()
        nbytes = math.prod(shape) * wanted.itemsize
        memory = self._heap.take(nbytes) if nbytes else None
        if memory is None:
            return torch.empty(shape, dtype=wanted)
        return torch.frombuffer(memory, dtype=torch.uint8).view(wanted).view(shape)
