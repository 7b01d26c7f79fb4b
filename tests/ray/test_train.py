"""Ray Train's TorchTrainer on the backend "ringtree", on two nodes of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ray.training import as_one_process, fitted

pytestmark = [pytest.mark.ray, pytest.mark.torch, pytest.mark.usefixtures("cluster")]


def test_training_as_in_one_process(tmp_path: Path) -> None:
    found = fitted(tmp_path, 4)
    assert found["failure"] == ""
    assert [(rank["backend"], rank["hosts"]) for rank in found["ranks"]] == [("ringtree", [0] * 4)] * 4
    assert all(rank["received_bytes"] for rank in found["ranks"])
    as_one_process(found["ranks"])


def test_the_error_names_a_killed_worker(tmp_path: Path) -> None:
    found = fitted(tmp_path, 3, fault="killed", step=1)
    assert "rank 2 died (process " in found["failure"], found["failure"]
    assert found["ranks"] == []
