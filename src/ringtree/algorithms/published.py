"""The modules of this room that are algorithms, in the order in which they are shown: a new one is a line here."""

from __future__ import annotations

from importlib import import_module

from ringtree.algorithms.registry import REGISTRY, read

NAMES = (
    "ring",
    "chain",
    "double_tree",
    "halving_doubling",
    "one_shot",
    "two_shot",
    "hierarchical",
    "pairwise",
    "dissemination",
    "hillis_steele",
    "inorder_tree",
    "flat",
    "binomial",
    "bine_tree",
    "binary_tree",
    "recursive_doubling",
    "bruck",
    "circulant",
    "circulant_broadcast",
    "torus",
    "torus_3d",
    "swing",
    "pat",
    "locality_tree",
    "split_tree",
    "parameter_server",
    "sharded_server",
)

REGISTRY.update((name, read(import_module(f"ringtree.algorithms.{name}"))) for name in NAMES)
