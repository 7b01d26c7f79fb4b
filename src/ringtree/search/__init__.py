"""Schedules for a topology: orders of the ranks, rings, and how a schedule's ranks are best laid out."""

from ringtree.search.arrange import arrange, distances
from ringtree.search.order import order, rings

__all__ = ["arrange", "distances", "order", "rings"]
