"""Which algorithm for which call, and how it is cut for the size. Simple rules; measurements will refine them."""

from ringtree.plan.choose import AT_ONCE, Choice, choose, choose_whole
from ringtree.plan.steps import Steps, steps_for

__all__ = ["AT_ONCE", "Choice", "Steps", "choose", "choose_whole", "steps_for"]
