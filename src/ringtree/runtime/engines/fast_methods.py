"""The shape of a call's result, by that of its input, as engines take it."""

from __future__ import annotations

SAME, STACKED, BLOCK, BLOCKS = range(4)
"""As the input's; [ranks, ...]; a rank's block of its rows; as the input's, whose rows are cut into a block a rank."""
