"""Recordings of ranks: made, gathered, and joined into one trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree import late

if TYPE_CHECKING:
    from ringtree.runtime.tracing.files import record_until_exit
    from ringtree.runtime.tracing.spans import UNRECORDED, Span, Spans
    from ringtree.runtime.tracing.tracing import MOST_EVENTS, Recording

_NAMES = {
    "files": ("record_until_exit",),
    "spans": ("UNRECORDED", "Span", "Spans"),
    "tracing": ("MOST_EVENTS", "Recording"),
}

__all__ = ["MOST_EVENTS", "UNRECORDED", "Recording", "Span", "Spans", "record_until_exit"]

__getattr__ = late.names(__name__, _NAMES)
