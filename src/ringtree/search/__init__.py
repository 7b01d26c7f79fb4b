"""Rings, trees and orders of the ranks for a given machine."""

from ringtree.search.patterns import communicator_channels, graphs

__all__ = ["communicator_channels", "graphs"]
