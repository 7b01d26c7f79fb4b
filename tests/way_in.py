"""What a call passes in ringtree on its way to the engine: counted, so that a busy machine sees a longer way too."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def passed(call: Callable[[], object]) -> list[str]:
    """The functions that ringtree's Python enters and calls in a repeated call, in order; those in C are "C ...".
    None where the method's own frame was not made either (see runtime/engines/fast_methods.py)."""
    call(), call()
    found: list[str] = []

    def note(frame: FrameType, event: str, function: Any) -> None:
        if frame.f_globals.get("__name__", "").startswith("ringtree."):
            if event == "call":
                found.append(frame.f_code.co_name)
            elif event == "c_call":
                found.append(f"C {function.__name__}")

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found
