"""Programs played over a topology: the simulated events and their times."""

from ringtree.simulate.conditions import Conditions
from ringtree.simulate.play import play
from ringtree.simulate.simulation import Job, Simulation, StuckError

__all__ = ["Conditions", "Job", "Simulation", "StuckError", "play"]
