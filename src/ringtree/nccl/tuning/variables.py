"""Names of the algorithms and protocols in NCCL_ALGO and NCCL_PROTO."""

from __future__ import annotations

FORCING = {"algorithm": "NCCL_ALGO", "protocol": "NCCL_PROTO"}
"""NCCL's variables that force a candidate's."""
SPELT = {
    "ring": "Ring",
    "tree": "Tree",
    "collnet_direct": "CollnetDirect",
    "collnet_chain": "CollnetChain",
    "nvls": "NVLS",
    "nvls_tree": "NVLSTree",
    "pat": "PAT",
    "ll": "LL",
    "ll128": "LL128",
    "simple": "Simple",
}
_NAMED = {spelt.lower(): name for name, spelt in SPELT.items()}


def named(text: str) -> str:
    """ringtree's name of a value of either variable, in upper or lower case; any other text unchanged."""
    return _NAMED.get(text.lower().replace("_", ""), text)


def as_variable(name: str) -> str:
    """An algorithm or a protocol as NCCL's variables spell it; any other name unchanged."""
    return SPELT.get(name, name)
