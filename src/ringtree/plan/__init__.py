"""The choice of an algorithm for a call, and its cut for the size. `price` computes the times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree import late

if TYPE_CHECKING:
    from ringtree.plan.choice import (
        Candidate,
        Choice,
        candidates,
        choose,
        choose_whole,
        chosen,
        nested_candidates,
        predict,
        shortlist,
    )
    from ringtree.plan.on_devices import DeviceChoice, choose_on_devices
    from ringtree.plan.over_hosts import (
        HostCandidate,
        HostChoice,
        candidates_over_hosts,
        choose_over_hosts,
        priced_at,
        quickest_as,
    )
    from ringtree.plan.properties import at_once, balanced, in_rank_order, order
    from ringtree.plan.steps import other_way, steps_for, workload
    from ringtree.plan.tuning import CallTuning, prove_own

_NAMES = {
    "choice": (
        "Candidate",
        "Choice",
        "candidates",
        "choose",
        "choose_whole",
        "chosen",
        "nested_candidates",
        "predict",
        "shortlist",
    ),
    "on_devices": ("DeviceChoice", "choose_on_devices"),
    "over_hosts": (
        "HostCandidate",
        "HostChoice",
        "candidates_over_hosts",
        "choose_over_hosts",
        "priced_at",
        "quickest_as",
    ),
    "properties": ("at_once", "balanced", "in_rank_order", "order"),
    "steps": ("other_way", "steps_for", "workload"),
    "tuning": ("CallTuning", "prove_own"),
}

__all__ = [
    "CallTuning",
    "Candidate",
    "Choice",
    "DeviceChoice",
    "HostCandidate",
    "HostChoice",
    "at_once",
    "balanced",
    "candidates",
    "candidates_over_hosts",
    "choose",
    "choose_on_devices",
    "choose_over_hosts",
    "choose_whole",
    "chosen",
    "in_rank_order",
    "nested_candidates",
    "order",
    "other_way",
    "predict",
    "priced_at",
    "prove_own",
    "quickest_as",
    "shortlist",
    "steps_for",
    "workload",
]

__getattr__ = late.names(__name__, _NAMES)
