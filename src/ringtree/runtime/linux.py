"""Linux: refusal of ranks on other systems, where the rest of ringtree runs; and what it shows of the processor and of
descriptors."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol


class _Descriptor(Protocol):
    def fileno(self) -> int: ...


def require_linux() -> None:
    """Raises RuntimeError, one line, on any other system."""
    if not sys.platform.startswith("linux"):
        raise RuntimeError(
            f"ranks run on Linux only, and this system is {sys.platform}; plan, prove, simulate, show, sweep and topo "
            "run here (docs/installing.md)"
        )


def after_fork_in_child(action: Callable[[], None]) -> None:
    """Has `action` done in every forked child. Windows, where such modules are imported, too, has no fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=action)


@lru_cache(maxsize=1)
def on_a_mesh(root: str = "/") -> bool:
    """Whether a mesh joins the processor's cores, as in Intel's servers since Skylake: a Xeon with AVX-512."""
    model = ""
    try:
        with open(f"{root}/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:  # as far as the first core's
                name, _, value = line.partition(":")
                if name.strip() == "model name":
                    model = value
                elif name.strip() == "flags":
                    return "Intel" in model and "Xeon" in model and "avx512f" in value.split()
    except OSError:
        pass
    return False


def of_kernel(error: BaseException) -> bool:
    """Whether the kernel has reported the error, or a look-up of names: these have a number."""
    return isinstance(error, OSError) and error.errno is not None


def readable(waiting: _Descriptor, within_s: float) -> bool:
    """Whether something to read, or the other's end, comes within that time. Unlike select.select, for any
    descriptor. Where ranks meet they wait so: the outcome is a result, and an exception is a signal handler's, which
    passes unchanged, as do those around a socket's calls that are not `of_kernel`."""
    poll = select.poll()
    poll.register(waiting, select.POLLIN)
    return bool(poll.poll(max(within_s, 0) * 1e3))
