"""The choice of an algorithm for a call, and its cut for the size. `price` computes the times."""

from ringtree.plan.choose import (
    Candidate,
    Choice,
    candidates,
    choose,
    choose_whole,
    chosen,
    predict,
    shortlist,
)
from ringtree.plan.over_hosts import (
    HostCandidate,
    HostChoice,
    candidates_over_hosts,
    choose_over_hosts,
    quickest_as,
)
from ringtree.plan.properties import at_once, in_rank_order, order, prove_own
from ringtree.plan.steps import CallTuning, steps_for, workload

__all__ = [
    "Candidate",
    "Choice",
    "CallTuning",
    "HostCandidate",
    "HostChoice",
    "at_once",
    "candidates",
    "candidates_over_hosts",
    "choose",
    "choose_over_hosts",
    "choose_whole",
    "chosen",
    "in_rank_order",
    "order",
    "predict",
    "prove_own",
    "quickest_as",
    "shortlist",
    "steps_for",
    "workload",
]
