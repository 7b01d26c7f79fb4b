"""vLLM's tokens by ringtree are those by its own shared memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.hosts.conftest import made_lab
from tests.vllm.jobs import generate

pytestmark = pytest.mark.vllm


@pytest.mark.parametrize(
    ("group", "ranks", "options"),
    [
        ("tp:0", 2, {"tensor_parallel_size": 2, "enforce_eager": True}),
        ("tp:0", 4, {"tensor_parallel_size": 4, "enforce_eager": True}),
        ("tp:0", 2, {"tensor_parallel_size": 2}),  # compiled
        ("pp:0", 2, {"pipeline_parallel_size": 2, "distributed_executor_backend": "mp"}),
    ],
    ids=["tensor-2", "tensor-4", "tensor-2-compiled", "pipeline-2"],
)
def test_tokens_are_the_same(model: Path, group: str, ranks: int, options: dict[str, Any]) -> None:
    (own, shown), (ours, said) = generate(model, "", **options), generate(model, "ringtree", **options)
    assert f"ringtree serves vLLM's group {group} of {ranks} ranks" in said and "ringtree" not in shown
    assert "CPU SHM" not in said
    assert ours["tokens"] == own["tokens"] and len({token for row in own["tokens"] for token in row}) > 20


def test_tokens_of_two_hosts_are_those_of_one(model: Path) -> None:
    """With one rank each: with more, this vLLM's own assertion fails in its first host's scheduler, whoever serves."""
    one, _ = generate(model, "ringtree", tensor_parallel_size=2, enforce_eager=True)
    for lab in made_lab():
        two, said = generate(model, "ringtree", lab, tensor_parallel_size=2)
    assert "ringtree serves vLLM's group tp:0 of 2 ranks" in said and two["tokens"] == one["tokens"]


def test_without_being_named_the_plug_in_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import ringtree.vllm

    for names in ("", "another"):
        monkeypatch.setenv("VLLM_PLUGINS", names)
        assert ringtree.vllm.platform() is None
    monkeypatch.delenv("VLLM_PLUGINS")
    assert ringtree.vllm.platform() is None
    monkeypatch.setenv("VLLM_PLUGINS", "another,ringtree")
    assert ringtree.vllm.platform() == "ringtree.vllm.cpu_platform.CpuPlatform"
