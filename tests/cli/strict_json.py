"""JSON as every reader takes it, for the tests of what commands write."""

from __future__ import annotations

import json
from typing import Any


def strictly(text: str) -> Any:
    """JSON as everyone reads it: NaN is none."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    return json.loads(text, parse_constant=refuse)
