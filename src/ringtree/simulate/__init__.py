"""Programs played over a topology: what would happen, and when."""

from ringtree.simulate.conditions import Conditions
from ringtree.simulate.play import play
from ringtree.simulate.simulation import Job, Simulation, StuckError

__all__ = ["Conditions", "Job", "Simulation", "StuckError", "play"]
