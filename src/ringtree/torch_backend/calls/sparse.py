"""all_reduce of sparse tensors: the sum of all ranks' elements, as many as there are.

The ranks first exchange their numbers of elements, so an all_reduce takes several calls. A thread beside the program
makes them, so the program need not wait; they have a group of their own, which keeps their order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch

from ringtree.runtime.communicator.calls.operations import Operation
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.limits import start_thread
from ringtree.torch_backend.calls.launching import Launching, Prepared
from ringtree.torch_backend.flight.recorder import FlightRecorder


class Sparse(Launching):
    """A group's sparse calls, of which one is under way at a time in a communicator."""

    def _open(self, communicator: Communicator, recorder: FlightRecorder) -> None:
        super()._open(communicator, recorder)
        self._last: dict[Communicator, SparseCall] = {}

    def _all_reduce_sparse(self, out: torch.Tensor, op: Operation) -> Prepared:
        if out.layout is not torch.sparse_coo or out.device.type != "cpu" or op != "sum":
            raise TypeError(
                f"all_reduce of a {str(out.layout)[6:]} tensor on {out.device} by {op}: expected a sum, and a "
                "sparse_coo tensor on the CPU"
            )
        x = out.detach().coalesce()
        total: list[torch.Tensor] = []

        def call(c: Communicator, async_op: bool) -> SparseCall:
            # In the group's own order, so that a rank which makes another call here raises Mismatch.
            barrier = c._calls.synchronize_for("all_reduce of sparse tensors", async_op)

            def run() -> None:
                if barrier is not None:
                    barrier.wait()
                total.append(_sum(c.beside("sparse"), x))

            self._last[c] = task = SparseCall(run, self._last.get(c))
            if not async_op:
                task.wait(None)
            return task

        return call, lambda: out.copy_(total.pop())


def _sum(c: Communicator, x: torch.Tensor) -> torch.Tensor:
    """The sum of all ranks' tensors of this shape."""
    indices, values = x.indices().t().contiguous(), x.values()
    description = (
        f"all_reduce of a sparse {x.dtype} tensor of shape {tuple(x.shape)}, {x.sparse_dim()} dimensions sparse"
    )
    counts = c._agreed(description, (len(values),))[:, 0]
    indices, values = c.all_gather_v(indices, counts), c.all_gather_v(values, counts)
    return torch.sparse_coo_tensor(indices.t(), values, x.shape, check_invariants=False).coalesce()


class SparseCall:
    """A call in a thread of its own, which starts after the task `before`. It has the interface of an engine's work."""

    def __init__(self, run: Callable[[], object], before: SparseCall | None) -> None:
        self._run, self._before = run, before
        self._ended = threading.Event()
        self._error: Exception | None = None
        start_thread(self._work, "sparse call")

    def done(self) -> bool:
        """Whether the operation has ended, well or with an error."""
        return self._ended.is_set()

    def wait(self, timeout: float | None) -> bool:
        """Waits at most `timeout` seconds (None: without end); False after that, raises the operation's error."""
        if not self._ended.wait(timeout):
            return False
        if self._error is not None:
            raise self._error
        return True

    def _work(self) -> None:
        before, self._before = self._before, None
        if before is not None:
            before._ended.wait()
        try:
            self._run()
        except Exception as error:  # noqa: BLE001  # raised where the task is waited for
            self._error = error
        self._ended.set()
