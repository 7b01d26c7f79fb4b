"""Faults are the same on every engine."""

from __future__ import annotations

import pytest


@pytest.fixture
def engine(every_engine: str) -> str:
    """Every engine, by name, `emulated` too."""
    return every_engine
