"""Which algorithm for which call, how it is cut for the size, and what it would take."""

from ringtree.plan.choose import AT_ONCE, Candidate, Choice, candidates, choose, choose_whole, chosen, shortlist
from ringtree.plan.figures import BUILT_IN, Figures
from ringtree.plan.predict import Prediction, Room, predict
from ringtree.plan.steps import Steps, steps_for

__all__ = [
    "AT_ONCE",
    "BUILT_IN",
    "Candidate",
    "Choice",
    "Figures",
    "Prediction",
    "Room",
    "Steps",
    "candidates",
    "choose",
    "choose_whole",
    "chosen",
    "predict",
    "shortlist",
    "steps_for",
]
