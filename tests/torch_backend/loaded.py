"""What ranks of most tests load by their first calls, loaded: a process that is forked from here finds it there."""

from __future__ import annotations

import gc
from importlib import import_module

MODULES = (
    "pytest", "torch.distributed.checkpoint", "torch.distributed.fsdp", "torch.distributed.optim",
    "torch.distributed.pipelining", "torch.distributed.tensor.parallel", "torch.nn.parallel", "torch._dynamo",
    "ringtree.machines.host", "ringtree.plan.choice", "ringtree.runtime.bootstrap.local.leader",
    "ringtree.runtime.communicator.calls.calls", "ringtree.runtime.engines.shm", "ringtree.runtime.observing",
    "ringtree.torch_backend.calls.collectives", "ringtree.torch_backend.creation", "ringtree.torch_backend.flight.dump",
    "ringtree.torch_backend.process_group", "ringtree.training.core.trainer", "ringtree.training.measure.wire",
    "tests.torch_backend.faults", "tests.torch_backend.world", "tests.training.trained",
)  # fmt: skip

for module in MODULES:
    import_module(module)
tuple(import_module("ringtree.algorithms.registry").REGISTRY.values())  # an algorithm is loaded where it is looked up
gc.freeze()  # no rank looks through it, nor so copies it
