"""The model, and whether SGLang is here."""

from __future__ import annotations

import pytest

from tests.serving.fixtures import model, need

__all__ = ["model"]


@pytest.fixture(autouse=True, scope="session")
def needed() -> None:
    """Skips where SGLang is missing."""
    need("sglang")
