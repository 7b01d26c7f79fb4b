"""Which algorithm for which call. One simple rule for now; measurements will refine it through a file."""

from ringtree.plan.choose import AT_ONCE, Choice, choose, choose_whole, in_rank_order

__all__ = ["AT_ONCE", "Choice", "choose", "choose_whole", "in_rank_order"]
