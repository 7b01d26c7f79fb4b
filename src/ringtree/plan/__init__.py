"""Which algorithm for which call, how it is cut for the size, and what it would take."""

from ringtree.plan.choose import Candidate, Choice, candidates, choose, choose_whole, chosen, shortlist
from ringtree.plan.figures import BUILT_IN, Figures
from ringtree.plan.predict import Prediction, Room, predict
from ringtree.plan.properties import at_once, in_rank_order, order, prove_own
from ringtree.plan.steps import Steps, steps_for

__all__ = [
    "BUILT_IN",
    "Candidate",
    "Choice",
    "Figures",
    "Prediction",
    "Room",
    "Steps",
    "at_once",
    "candidates",
    "choose",
    "choose_whole",
    "chosen",
    "in_rank_order",
    "order",
    "predict",
    "prove_own",
    "shortlist",
    "steps_for",
]
