"""Which backend the suite meets, and under which name.

Much of the suite asks for a backend by name before it runs a test, and torch for Gloo's class. So ringtree is tested
twice: under its own name, which only some tests accept, and in Gloo's place, with all tests that accept Gloo.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

GLOO, IN_GLOOS_PLACE, RINGTREE = "gloo", "ringtree as gloo", "ringtree"
FACES = (GLOO, IN_GLOOS_PLACE, RINGTREE)
THREADS = 3
"""Of a group of Gloo's."""


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
    import ringtree.torch_backend

    _forbid_gloo()
    if face == IN_GLOOS_PLACE:
        ringtree.torch_backend.replace("gloo")
    else:
        _open_gates()


class GlooError(AssertionError):
    """A test on ringtree made a group of Gloo's."""


def _rename_threads() -> None:
    """Renames the threads of a Gloo that was just made, as each takes its own name some time later."""
    renamed, until_s = 0, time.monotonic() + 2
    while renamed < THREADS and time.monotonic() < until_s:
        for thread in Path("/proc/self/task").glob("*/comm"):
            with suppress(OSError):  # another thread has ended
                if "gloo" in thread.read_text():
                    thread.write_text("of one rank")
                    renamed += 1
        time.sleep(0.002)


def _forbid_gloo() -> None:
    """Makes Gloo's constructor raise, under every name by which a module has imported it."""
    from torch._C._distributed_c10d import ProcessGroupGloo

    made = ProcessGroupGloo.__init__

    def refuse(self: Any, store: Any, rank: int, size: int, *more: Any, **named: Any) -> None:
        if size > 1:
            raise GlooError("a group of Gloo's is made in a test on ringtree")
        made(self, store, rank, size, *more, **named)
        _rename_threads()  # one rank sends nothing

    ProcessGroupGloo.__init__ = refuse


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
