"""Worlds of ranks with a process group, kept across tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.torch_backend.conftest import Worlds, kept

FEWEST = {"RINGTREE_ALGORITHM": "two_shot"}
"""By the rule, small vectors are added by an algorithm that waits less, and moves more bytes than the formulas say."""


@pytest.fixture(scope="session")
def worlds() -> Iterator[Worlds]:
    yield from kept(FEWEST)
