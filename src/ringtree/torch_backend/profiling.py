"""Operations as torch.profiler shows them: by name, with the shapes of their inputs, from begin to end.

torch ends an event on the thread that began it, or where a future is completed: so events end through a future, which
another thread completes. That thread is also what makes torch call an event asynchronous, as all of Gloo's are.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial

import torch

from ringtree.torch_backend.works.completion import run


class ProfiledOperation:
    """An operation under way. Made where a profiler listens only."""

    def __init__(self, name: str, inputs: Sequence[torch.Tensor]) -> None:
        record = torch.autograd._record_function_with_args_enter(name, *inputs)
        self._thread = threading.get_ident()
        self._end: torch.futures.Future[None] = torch.futures.Future()
        with torch._C.DisableTorchFunctionSubclass():
            self._ended = torch.ops.profiler._call_end_callbacks_on_jit_fut._RecordFunction(record, self._end)

    def end(self) -> None:
        """Reports the operation's end; returns when the profiler knows."""
        if self._end.done():
            return
        if threading.get_ident() == self._thread:
            run(partial(self._end.set_result, None))
        else:
            self._end.set_result(None)
        self._ended.wait()
