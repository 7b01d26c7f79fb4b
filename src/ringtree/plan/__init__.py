"""Which algorithm for which call. One simple rule for now; measurements will refine it through a file."""

from ringtree.plan.choose import Choice, choose

__all__ = ["Choice", "choose"]
