"""Queries, keys and values of one attention, checked before any message: torch's kernels trust their shapes."""

from __future__ import annotations

from torch import Tensor

SHAPE = "[rows, heads, positions, width]"


def check(where: str, q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raises ValueError unless q, k and v fit each other: of one type and device, k and v as q except for their heads,
    which may be fewer (grouped queries). `where`: the attention, for the error's text."""
    if {q.dim(), k.dim(), v.dim()} != {4}:
        raise ValueError(f"{where}: {_shapes(q, k, v)}; expected {SHAPE} of each")
    if k.shape != v.shape:
        raise ValueError(f"{where}: {_shapes(q, k, v)}; expected one shape of k and v")
    rows, heads, positions, width = q.shape
    if k.shape != (rows, k.shape[1], positions, width):
        raise ValueError(
            f"{where}: {_shapes(q, k, v)}; expected as many rows, positions and as much width in k and v as in q"
        )
    if k.shape[1] != heads and (not k.shape[1] or heads % k.shape[1]):
        raise ValueError(
            f"{where}: {_shapes(q, k, v)}; expected as many heads in k and v as in q, or a divisor of them"
        )
    if not q.dtype == k.dtype == v.dtype or not q.is_floating_point():
        raise ValueError(f"{where}: q is {q.dtype}, k {k.dtype}, v {v.dtype}; expected one floating-point type")
    if not q.device == k.device == v.device:
        raise ValueError(f"{where}: q is on {q.device}, k on {k.device}, v on {v.device}; expected one device")


def _shapes(q: Tensor, k: Tensor, v: Tensor) -> str:
    return f"q is {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)}"
