"""Rings, trees and orders of the ranks for a given machine."""

from ringtree.search.arrange import arrange, distances
from ringtree.search.order import order, rings
from ringtree.search.patterns import communicator_channels, graphs

__all__ = ["arrange", "communicator_channels", "distances", "graphs", "order", "rings"]
