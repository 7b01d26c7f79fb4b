"""Published collective algorithms, one a file. A new one is a file here and a line in `registry`."""

from ringtree.algorithms.registry import REGISTRY, Algorithm, Cost, build, find, pairs, serving

__all__ = ["REGISTRY", "Algorithm", "Cost", "build", "find", "pairs", "serving"]
