"""Which algorithm for which call. One simple rule for now; measurements will refine it through a file."""

from ringtree.plan.choose import Choice, choose, choose_whole, in_rank_order

__all__ = ["Choice", "choose", "choose_whole", "in_rank_order"]
