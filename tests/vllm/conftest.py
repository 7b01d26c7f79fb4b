"""The model, and whether vLLM is here."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.serving.model import make_model


@pytest.fixture(autouse=True)
def needed() -> None:
    """Skips where vLLM is missing."""
    if find_spec("vllm") is None:
        pytest.skip("no vLLM here: make test-vllm")


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vllm") / "model"
    make_model(folder)
    return folder
