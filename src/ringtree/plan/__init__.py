"""Which algorithm for which call, and how it is cut for the size. What it would take is asked of `price`."""

from ringtree.plan.choose import (
    AT_ONCE,
    Candidate,
    Choice,
    candidates,
    choose,
    choose_whole,
    chosen,
    predict,
    shortlist,
)
from ringtree.plan.steps import Steps, steps_for, workload

__all__ = [
    "AT_ONCE",
    "Candidate",
    "Choice",
    "Steps",
    "candidates",
    "choose",
    "choose_whole",
    "chosen",
    "predict",
    "shortlist",
    "steps_for",
    "workload",
]
