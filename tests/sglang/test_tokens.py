"""SGLang's tokens by ringtree are those by Gloo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.hosts.conftest import made_lab
from tests.sglang.jobs import generate

pytestmark = pytest.mark.sglang


@pytest.mark.parametrize(
    "options",
    [
        {"tp_size": 2, "dtype": "bfloat16"},
        {"tp_size": 4, "dtype": "float32"},  # of more than two bfloat16, Gloo's sums depend on their order
        {"pp_size": 2, "dtype": "bfloat16"},
    ],
    ids=["tensor-2", "tensor-4", "stages-2"],
)
def test_tokens_are_the_same(model: Path, options: dict[str, Any]) -> None:
    (own, shown), (ours, printed) = generate(model, "none", **options), generate(model, "ringtree", **options)
    assert "in the place of gloo" in printed and "in the place of gloo" not in shown
    assert ours["tokens"] == own["tokens"] and len({token for row in own["tokens"] for token in row}) > 20


def test_tokens_of_two_hosts_are_those_of_one(model: Path) -> None:
    one, _ = generate(model, "ringtree", tp_size=2, dtype="bfloat16")
    for lab in made_lab():
        two, printed = generate(model, "ringtree", lab, tp_size=2, dtype="bfloat16")
    assert "in the place of gloo" in printed and two["tokens"] == one["tokens"]
