"""Requests that must be equal on all ranks of a group: compared before any rank acts on them.

A request travels as int64: its text in words, and then numbers of each rank's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ringtree.errors import Mismatch
from ringtree.ir.digest import sha256

if TYPE_CHECKING:
    from numpy.typing import NDArray

TEXT_BYTES = 128
_INTS = TEXT_BYTES // 8


def agreed(
    all_gather: Callable[[Any], Any], names: Sequence[str], text: str, numbers: Sequence[int] = (0, 0, 0)
) -> NDArray[np.int64]:
    """All ranks' numbers, a row a rank. Raises Mismatch, alike on every rank, unless all asked for the same."""
    row = np.concatenate([np.frombuffer(_cut(text), np.int64), np.array(numbers, np.int64)])
    rows: NDArray[np.int64] = all_gather(row)
    asked = [r[:_INTS].tobytes().rstrip(b"\0").decode(errors="replace") for r in rows]
    for name, other in zip(names, asked, strict=True):
        if other != asked[0]:
            raise Mismatch(f"rank {names[0]} asks for {asked[0]}, rank {name} for {other}; expected the same")
    return rows[:, _INTS:]


def _cut(text: str) -> bytes:
    """The text in TEXT_BYTES bytes; a longer one ends in its digest, so that two are equal where the whole texts
    are."""
    data = text.encode()
    if len(data) > TEXT_BYTES:
        data = data[: TEXT_BYTES - 20] + b"... " + sha256(data).hexdigest()[:16].encode()
    return data.ljust(TEXT_BYTES, b"\0")
