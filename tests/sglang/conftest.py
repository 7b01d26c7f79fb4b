"""The model, and whether SGLang is here."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.serving.model import make_model


@pytest.fixture(autouse=True)
def needed() -> None:
    """Skips where SGLang is missing."""
    if find_spec("sglang") is None:
        pytest.skip("no SGLang here: make test-sglang")


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sglang") / "model"
    make_model(folder)
    return folder
