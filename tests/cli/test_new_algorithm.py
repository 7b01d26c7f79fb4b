"""The acceptance test of the house: an algorithm that nobody here knows shows everywhere, without a line for it."""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType

import pytest

import ringtree as package
from ringtree.algorithms import REGISTRY
from ringtree.algorithms.cost import S, cost, n
from ringtree.algorithms.registry import read
from ringtree.ir.schedule import Block, Schedule, Transfers
from tests.cli.conftest import Ringtree

ZIGZAG = "Zigzag: from the root to the last rank, to the first, to the last but one."


@pytest.fixture
def zigzag(monkeypatch: pytest.MonkeyPatch) -> str:
    @cost(n - 1, S, pipelines=True)
    def broadcast(ranks: int, root: int) -> Schedule:
        order = [(root + (-(i + 1) // 2 if i % 2 else i // 2)) % ranks for i in range(ranks)]
        rows = Transfers.of(order[:-1], order[1:], round=list(range(ranks - 1)))
        return Schedule("zigzag", "broadcast", ranks, 1, (Block(rows),) if ranks > 1 else (), root)

    module = ModuleType("ringtree.algorithms.zigzag", ZIGZAG)
    module.broadcast = broadcast  # type: ignore[attr-defined]
    module.SOURCE, module.WHEN = "nobody: for this test, 2026", "never."  # type: ignore[attr-defined]
    monkeypatch.setitem(REGISTRY, "zigzag", read(module))
    return "zigzag"


def test_a_new_algorithm_shows_everywhere(ringtree: Ringtree, zigzag: str, tmp_path: Path) -> None:
    rounds = ringtree("show", zigzag, "-n", "5", "--rounds").out
    assert "0 ─ 4 ─ 1 ─ 3 ─ 2" in rounds and rounds.endswith("every rank has what broadcast promises\n")
    assert "round 3" in ringtree("show", zigzag, "-n", "5", "--picture").out
    page = tmp_path / "zigzag.html"
    assert ringtree("show", zigzag, "-n", "5", "--html", str(page)).code == 0 and "zigzag" in page.read_text()
    assert "zigzag" in ringtree("algorithms").out and ringtree("prove", zigzag, "-n", "5").code == 0
    planned = ringtree("plan", "broadcast", "-n", "5", "--bytes", "8,1M", "--all")
    assert planned.code == 0 and planned.out.count("zigzag") == 2
    simulated = ringtree("simulate", zigzag, "-n", "5", "--bytes", "1M")
    assert simulated.code == 0 and "(rank 0 → 4 → 1 → 3 → 2)" in simulated.out


@pytest.mark.parametrize("room", ["draw", "simulate", "cli"])
def test_no_view_knows_an_algorithm(room: str) -> None:
    known = [
        f"{path.name}:{node.lineno}: {node.value}"
        for path in (Path(package.__file__).parent / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in REGISTRY
    ]
    assert not known
