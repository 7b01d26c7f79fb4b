"""Orders of the ranks for a topology: ring orders, and the best assignment of a schedule's ranks; and the algorithms
for a collective, each in such an order."""

from ringtree.search.arrange import arrange, distances
from ringtree.search.candidates import FoundSchedule, candidates
from ringtree.search.order import order, rings

__all__ = ["FoundSchedule", "arrange", "candidates", "distances", "order", "rings"]
