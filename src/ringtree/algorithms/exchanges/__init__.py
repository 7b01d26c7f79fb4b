"""Algorithms in rounds in which all ranks send at once, each to a rank at the distance of the round."""
