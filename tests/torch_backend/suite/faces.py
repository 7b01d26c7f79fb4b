"""Which backend the suite meets, and under which name.

Much of the suite asks for a backend by name before it runs a test, and torch for Gloo's class. So ringtree is tested
twice: under its own name, which only some tests accept, and in Gloo's place, with all tests that accept Gloo.
"""

from __future__ import annotations

import os
import tempfile
import threading
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

GLOO, IN_GLOOS_PLACE, RINGTREE = "gloo", "ringtree as gloo", "ringtree"
FACES = (GLOO, IN_GLOOS_PLACE, RINGTREE)
ABOUT_GLOO_ITSELF = {"test_ddp_logging_data_cpu": "asks torch's C++ for the threads of a backend called gloo"}
"""Tests that nothing but Gloo can pass under its name, and why. They must pass under our own."""


def put_on(face: str, ranks: int) -> None:
    """Makes this process test on `face`; before the suite is imported, for what it reads in the environment decides
    which tests it skips."""
    os.environ.update(
        BACKEND="ringtree" if face == RINGTREE else "gloo",
        WORLD_SIZE=str(ranks),
        OMP_NUM_THREADS="1",
        MASTER_ADDR="localhost",
        INIT_METHOD=f"file://{tempfile.gettempdir()}/ringtree-suite-{os.getpid()}",
    )
    if face == GLOO:
        return
    import ringtree.torch_backend  # noqa: F401

    _forbid_gloo()
    if face == IN_GLOOS_PLACE:
        _take_gloos_place()
    else:
        _open_gates()


class GlooError(AssertionError):
    """A test on ringtree made a group of Gloo's."""


def _forbid_gloo() -> None:
    """Makes Gloo's constructor raise, under every name by which a module has imported it."""
    from torch._C._distributed_c10d import ProcessGroupGloo

    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        raise GlooError("a group of Gloo's is made in a test on ringtree")

    ProcessGroupGloo.__init__ = refuse


def _take_gloos_place() -> None:
    """Makes ours what torch takes for Gloo's class, so that the groups of the backend "gloo" are ours."""
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    from ringtree.torch_backend.process_group import ProcessGroup
    from ringtree.torch_backend.registration import create

    asked = threading.local()
    helper = distributed_c10d._new_process_group_helper

    def heard(size: int, rank: int, ranks: list[int], *args: Any, **kwargs: Any) -> Any:
        asked.ranks = ranks  # which torch gives to a backend of ours, and not Gloo's constructor
        return helper(size, rank, ranks, *args, **kwargs)

    class Gloo(type):
        def __call__(cls, store: Any, rank: int, size: int, timeout: timedelta) -> Any:
            options = SimpleNamespace(
                store=store,
                group_rank=rank,
                group_size=size,
                timeout=timeout,
                group_id="",
                global_ranks_in_group=asked.ranks,
            )
            group = create(options, None)
            group.options = SimpleNamespace()  # torch writes the group's name and ranks there
            return group

        def __instancecheck__(cls, group: object) -> bool:
            return isinstance(group, ProcessGroup)

    class ProcessGroupGloo(metaclass=Gloo):
        pass

    def name(group: Any) -> str:
        return "gloo"

    ProcessGroup.name = ProcessGroup._get_backend_name = name  # and not getBackendName, which C++ asks
    distributed_c10d._new_process_group_helper = heard
    distributed_c10d.ProcessGroupGloo = dist.ProcessGroupGloo = ProcessGroupGloo


def _open_gates() -> None:
    """Adds our name to the lists that the suite keeps of what a backend can do."""
    from torch.testing._internal.common_distributed import DistTestCases

    for feature in "ddp", "subgroup", "plugin", "gpu", "cuda":
        DistTestCases.backend_feature[feature].add("ringtree")


def open_profiling_gates() -> None:
    """The same for lists which are in the suite itself, hence after its import."""
    from torch.testing._internal.distributed import distributed_test as suite

    for known in (
        suite.PROFILING_SUPPORTED_BACKENDS,
        suite.CUDA_PROFILING_SUPPORTED_BACKENDS,
        suite.SEND_RECV_PROFILING_SUPPORTED_BACKENDS,
    ):
        known.append("ringtree")
