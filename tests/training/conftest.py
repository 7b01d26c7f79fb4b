"""Worlds of ranks with a process group, kept across tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.torch_backend.conftest import Worlds, kept, one_thread

__all__ = ["one_thread", "worlds"]

FEWEST = {"RINGTREE_ALGORITHM": "two_shot,pairwise"}
"""By the rule, algorithms are chosen for small vectors that wait less, and move more bytes than the formulas state."""


@pytest.fixture(scope="session")
def worlds() -> Iterator[Worlds]:
    yield from kept(FEWEST)
