"""Refusal of ranks on other systems than Linux, where the rest of ringtree runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


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
