"""The modules of this room that are algorithms, in the order in which they are shown: a new one is a line here."""

from __future__ import annotations

MODULES = (
    "rings.ring",
    "rings.chain",
    "trees.double_tree",
    "exchanges.halving_doubling",
    "direct.one_shot",
    "direct.two_shot",
    "hierarchical",
    "exchanges.pairwise",
    "exchanges.dissemination",
    "exchanges.hillis_steele",
    "trees.inorder_tree",
    "direct.flat",
    "trees.binomial",
    "trees.bine_tree",
    "trees.binary_tree",
    "exchanges.recursive_doubling",
    "exchanges.bruck",
    "exchanges.circulant",
    "exchanges.circulant_broadcast",
    "rings.torus",
    "rings.torus_3d",
    "exchanges.swing",
    "exchanges.pat",
    "trees.locality_tree",
    "trees.split_tree",
    "direct.parameter_server",
    "direct.sharded_server",
)
