"""What torch gets back from a call: its Work, with a future."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ringtree.runtime.work import Work as Began

NO_TIMEOUT = timedelta(0)
"""What torch's C++ passes for none."""


class Work(dist.Work):
    """`outputs` are what the future holds: a list of tensors."""

    def __init__(self, outputs: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self._outputs = list(outputs)

    def result(self) -> list[torch.Tensor]:
        self.wait()
        return self._outputs

    def synchronize(self) -> None:
        self.wait()


class Done(Work):
    """A call that had ended when it returned."""

    def wait(self, timeout: timedelta | None = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> Any:
        return None

    def get_future(self) -> Any:
        future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
        future.set_result(self._outputs)
        return future


class Pending(Work):
    """A call under way: `began` in ringtree's words, `after` what is still to be done when it has ended."""

    def __init__(self, began: Began, outputs: Sequence[torch.Tensor], after: Callable[[], None] | None = None) -> None:
        super().__init__(outputs)
        self._began, self._after = began, after

    def wait(self, timeout: timedelta | None = None) -> bool:
        limit_s = None if timeout is None or timeout <= NO_TIMEOUT else timeout.total_seconds()
        if not self._began.wait(limit_s):
            raise RuntimeError(f"the call did not end within {limit_s:g} s")
        after, self._after = self._after, None
        if after is not None:
            after()
        return True

    def is_completed(self) -> bool:
        return self._began.done()

    def get_future(self) -> Any:
        self.wait()
        return Done(self._outputs).get_future()
