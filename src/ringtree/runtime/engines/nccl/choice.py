"""The choice of the backend that carries, without torch: a launcher asks."""

from __future__ import annotations

from collections.abc import Mapping

VARIABLE = "RINGTREE_NCCL_CARRIER"
CARRIERS = ("nccl", "gloo", "staged")
"""NCCL; Gloo on arrays in host memory; Gloo on arrays of GPUs, through host memory, where NCCL cannot join them."""


def chosen(env: Mapping[str, str]) -> str:
    """The carrier that RINGTREE_NCCL_CARRIER names: nccl by default. ValueError: for another."""
    name = env.get(VARIABLE) or "nccl"
    if name not in CARRIERS:
        raise ValueError(f"{VARIABLE} is {name!r}; expected one of {', '.join(CARRIERS)}")
    return name
