"""What the conftests of both servers' tests have in common."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.serving.model import make_model


def need(package: str) -> None:
    """Skips a test where the server is missing."""
    if find_spec(package) is None:
        pytest.skip(f"no {package} here: make test-{package}")


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the model."""
    folder = tmp_path_factory.mktemp("serving") / "model"
    make_model(folder)
    return folder
