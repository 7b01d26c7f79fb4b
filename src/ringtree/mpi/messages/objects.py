"""The object of a message, which travels as its pickle."""

from __future__ import annotations

import pickle
from typing import Any


def object_of(data: bytes | memoryview, found: Any) -> Any:
    """The object of a message of that source and tag; None from one without bytes. ValueError: if it has another's."""
    if not data:
        return None
    if bytes(data[-1:]) != pickle.STOP:
        what = f"{len(data)} bytes from rank {found.source} with tag {found.tag} are no object"
        raise ValueError(f"{what}: expected one that a lower-case send sent; Recv takes an array")
    return pickle.loads(data)
