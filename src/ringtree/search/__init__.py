"""Orders of the ranks for a topology: ring orders, and the best assignment of a schedule's ranks."""

from ringtree.search.arrange import arrange, distances
from ringtree.search.order import order, rings

__all__ = ["arrange", "distances", "order", "rings"]
