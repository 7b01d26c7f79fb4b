"""Processes forked from a server that has loaded what ranks load: each of them would take a second for it."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext

LOADED = (
    "torch.distributed.checkpoint", "torch.distributed.fsdp", "torch.distributed.optim", "torch.distributed.pipelining",
    "torch.distributed.tensor.parallel", "torch.nn.parallel", "torch._dynamo",
    "ringtree.torch_backend.registration", "ringtree.training.core.trainer", "tests.torch_backend.world",
)  # fmt: skip
"""What ranks of most tests load, by the first call that needs it."""


def context() -> ForkServerContext:
    """Of multiprocessing. The server starts with its first process, and is there for all tests of this process."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(list(LOADED))
    return made
