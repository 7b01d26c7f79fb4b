"""Methods whose calls take the fast path before Python makes a frame for them, where the core was built.

The frame and the parsing of its options take longer than the rest of a call of a few bytes. The core's FastMethod tries
`call`, `call_shaped` or `call_barrier` of the method's communicator; all that these do not know is the method's own, as
it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from ringtree.runtime.engines.engine import native_module

SAME, STACKED, BLOCK, BLOCKS = range(4)
"""The shape of a call's result, by that of its input: as the input's; [ranks, ...]; a rank's block of its rows; as the
input's, whose rows are cut into a block a rank."""

Roles = Literal["alike", "to_root", "from_root", "filled", "none"]
"""Who gives and who gets: every rank alike; all to the root; the root to all; the root to all in place; no arrays."""

_Method = TypeVar("_Method", bound=Callable[..., Any])


def fast(collective: int, roles: Roles = "alike", shape: int = SAME) -> Callable[[_Method], _Method]:
    """A decorator for the method of a collective, whose code that is (communicator.calls.codes)."""
    make = _core_class()
    return lambda method: method if make is None else make(method, collective, roles, shape)


def _core_class() -> Any:
    """None where the core was not built, or for other sources: joining a group says so."""
    try:
        return native_module().FastMethod
    except (ImportError, RuntimeError):
        return None
