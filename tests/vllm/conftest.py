"""The model, and whether vLLM is here."""

from __future__ import annotations

import pytest

from tests.serving.fixtures import model, need

__all__ = ["model"]


@pytest.fixture(autouse=True, scope="session")
def needed() -> None:
    """Skips where vLLM is missing."""
    need("vllm")
