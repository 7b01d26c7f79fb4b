"""A run of training as a page: the plan, the loss, where a step's time went, its bytes; and the step's timeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ringtree.ir.trace import Trace
from ringtree.pages import assemble
from ringtree.pages.trace_page import trace_data


def train_page(record: Mapping[str, Any], trace: Trace, picture: str = "") -> str:
    """`record`: as `ringtree train --json` writes it; `picture`: the step's calls, as SVG, if known. ValueError where
    the trace is too large for a browser."""
    title = " × ".join(f"{name} {size}" for name, size in record["axes"].items() if size > 1) or "1 rank"
    train = {**record, "picture": picture}
    return assemble(f"ringtree train: {title}", ["train", "trace"], {"train": train, "trace": trace_data([trace])})
