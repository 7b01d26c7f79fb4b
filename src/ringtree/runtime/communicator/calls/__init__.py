"""The life of a collective call: its request, the decision, the binding to sizes, the plans that are kept.

What the slow path needs is loaded at the first call that takes it, and not at a rank's start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree import late

if TYPE_CHECKING:
    from ringtree.runtime.communicator.calls.binding import BoundPlan
    from ringtree.runtime.communicator.calls.calls import Calls
    from ringtree.runtime.communicator.calls.function_reductions import check_function, reduce_by_function
    from ringtree.runtime.communicator.calls.operations import Op, as_op
    from ringtree.runtime.communicator.calls.ordering import kept_order, promises
    from ringtree.runtime.communicator.calls.request import CallRequest, plan_key

_NAMES = {
    "binding": ("BoundPlan",),
    "calls": ("Calls",),
    "function_reductions": ("check_function", "reduce_by_function"),
    "operations": ("Op", "as_op"),
    "ordering": ("kept_order", "promises"),
    "request": ("CallRequest", "plan_key"),
}

__all__ = [
    "BoundPlan",
    "CallRequest",
    "Calls",
    "Op",
    "as_op",
    "check_function",
    "kept_order",
    "plan_key",
    "promises",
    "reduce_by_function",
]

__getattr__ = late.names(__name__, _NAMES)
