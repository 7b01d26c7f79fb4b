"""Linux: refusal of ranks on other systems, where the rest of ringtree runs, and what it shows of the processor."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import lru_cache


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
