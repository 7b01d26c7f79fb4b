"""The acceptance test of the architecture: an unknown algorithm shows everywhere, without a line for it: one
that passes on, and one that adds up."""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import ringtree as package
from ringtree import Communicator, algorithms, spawn
from ringtree.algorithms import REGISTRY
from ringtree.algorithms.cost import S, cost, n
from ringtree.algorithms.registry import read
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.plan import at_once, candidates, in_rank_order
from ringtree.price.memory import SharedMemory
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
    monkeypatch.setitem(REGISTRY.modules, "zigzag", "zigzag")
    monkeypatch.setitem(REGISTRY.loaded, "zigzag", read(module))
    return "zigzag"


def test_a_new_algorithm_shows_everywhere(ringtree: Ringtree, zigzag: str, tmp_path: Path) -> None:
    rounds = ringtree("show", zigzag, "-n", "5", "--rounds").out
    assert "0 ─ 4 ─ 1 ─ 3 ─ 2" in rounds and rounds.endswith("postcondition of broadcast holds on every rank\n")
    assert "round 3" in ringtree("show", zigzag, "-n", "5", "--picture").out
    page = tmp_path / "zigzag.html"
    assert ringtree("show", zigzag, "-n", "5", "--html", str(page)).code == 0 and "zigzag" in page.read_text()
    assert "zigzag" in ringtree("algorithms").out and ringtree("prove", zigzag, "-n", "5").code == 0
    planned = ringtree("plan", "broadcast", "-n", "5", "--bytes", "8,1M", "--all")
    assert planned.code == 0 and planned.out.count("zigzag") == 2
    simulated = ringtree("simulate", zigzag, "-n", "5", "--bytes", "1M")
    assert simulated.code == 0 and "(rank 0 → 4 → 1 → 3 → 2)" in simulated.out


STAR = '''"""Star: all send all to the last rank, which adds up in rank order and answers."""

from __future__ import annotations

import numpy as np

from ringtree.algorithms.cost import S, cost, n
from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers

SOURCE = "nobody: for this test, 2026"
WHEN = "never."


@cost(2, (n - 1) * S)
def all_reduce(ranks: int) -> Schedule:
    rank, hub = np.arange(ranks), ranks - 1
    up = Transfers.of(rank, hub, reduce=rank > 0, source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT)
    down = Transfers.of(hub, rank[:-1], source_buffer=Buffer.OUTPUT, target_buffer=Buffer.OUTPUT)
    return Schedule("star", "all_reduce", ranks, 1, (Block(up), Block(down)) if ranks > 1 else (Block(up),))
'''


@pytest.fixture
def star(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """One file in the room, and its line in `published`."""
    (tmp_path / "star.py").write_text(STAR)
    monkeypatch.setattr(algorithms, "__path__", [*algorithms.__path__, str(tmp_path)])
    monkeypatch.setitem(REGISTRY.modules, "star", "star")
    monkeypatch.setitem(REGISTRY.loaded, "star", read(import_module("ringtree.algorithms.star")))
    monkeypatch.delitem(sys.modules, "ringtree.algorithms.star")
    return "star"


def reductions(comm: Communicator, algorithm: str) -> tuple[list[float], list[int], str]:
    """A sum in rank order, and a product of matrices, which is wrong in any order but the ranks'."""
    total = comm.all_reduce(np.full(3, comm.rank + 0.5), algorithm=algorithm, deterministic="rank_order")
    product = comm.all_reduce(np.array([[1, comm.rank], [1, 0]]), lambda a, b: a @ b, algorithm=algorithm)
    chosen = comm.chosen("all_reduce", 3, np.float64, algorithm=algorithm)
    return total.tolist(), product.ravel().tolist(), chosen.part.program.name


def test_a_new_reduction_is_chosen_from_and_runs(ringtree: Ringtree, star: str) -> None:
    proved = ringtree("prove", star, "--ranks", "1-9")
    assert proved.code == 0 and "proved 9 schedules" in proved.out
    assert star in at_once("all_reduce") and star in in_rank_order("all_reduce")
    names = at_once("all_reduce")
    found = candidates(names, "all_reduce", 4, 1 << 20, SharedMemory(4, 8, 1 << 17))
    assert {c.algorithm for c in found} == {"one_shot", "two_shot", "parameter_server", "star"}
    swept = ringtree("sweep", "all_reduce", "--topology", "switch", "--ranks", "100", "--bytes", "1M")
    assert "star" in swept.out and "one_shot" not in swept.out  # of the many, it is one of those that stand for all
    assert "| all_reduce | `2` | `(n-1)*S` | at once |" in ringtree("algorithms", "--page").out
    product = np.linalg.multi_dot([np.array([[1, rank], [1, 0]]) for rank in range(5)])
    assert spawn(reductions, 5, star) == [([12.5] * 3, product.ravel().tolist(), "star")] * 5


ROOT = Path(package.__file__).parent
NAMELESS = ["draw", "simulate", "cli", "price/closed.py", "price/scale.py", "plan/choice.py", "plan/properties.py"]


@pytest.mark.parametrize("where", [*NAMELESS, "plan/growth.py", "plan/steps.py", "price/memory"])
def test_nothing_knows_an_algorithm_by_name(where: str) -> None:
    known = [
        f"{path.name}:{node.lineno}: {node.value}"
        for path in [*(ROOT / where).rglob("*.py"), *ROOT.glob(where)]
        if path.is_file()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in REGISTRY
    ]
    assert not known
