"""Every algorithm for every collective it serves: legal, right, and as cheap as it states."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from ringtree import algorithms
from ringtree.algorithms import REGISTRY, registry
from ringtree.algorithms.cost import AtMost, S, cost
from ringtree.ir import spec
from ringtree.ir.collective import COLLECTIVES
from tests import oracle

RANKS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16)


def roots(collective: str, ranks: int) -> list[int | None]:
    return sorted({0, ranks // 2, ranks - 1}) if COLLECTIVES[collective].rooted else [None]  # type: ignore[return-value]


@pytest.mark.parametrize(("name", "collective"), algorithms.pairs())
def test_is_legal_and_right(name: str, collective: str) -> None:
    for ranks, root in ((n, root) for n in RANKS for root in roots(collective, n)):
        schedule = algorithms.build(name, collective, ranks, root)
        assert (schedule.name, schedule.collective, schedule.ranks, schedule.root) == (name, collective, ranks, root)
        spec.check(schedule)
        assert oracle.wrong(schedule) is None, (ranks, root)


@pytest.mark.parametrize(("name", "collective"), algorithms.pairs())
def test_an_algorithm_has_its_stated_cost(name: str, collective: str) -> None:
    cost = REGISTRY[name].costs[collective]
    for ranks, root in ((n, root) for n in RANKS if n > 1 for root in roots(collective, n)):
        schedule = algorithms.build(name, collective, ranks, root)
        rounds, sent = cost.evaluate(ranks, 1.0)
        busiest = schedule.chunks_sent().max() / schedule.chunks
        for formula, stated, is_so in ((cost.rounds, rounds, schedule.rounds), (cost.sent, sent, busiest)):
            if isinstance(formula, AtMost):
                assert is_so <= stated + 1e-12, (formula, ranks, root)
            else:
                assert is_so == pytest.approx(stated), (formula, ranks, root)
        first, again = schedule.expand(), schedule.chunks_sent()
        away = first.take(first.source != first.target)
        assert sum(away.count.tolist()) == again.sum() == schedule.chunks_received().sum()


@pytest.mark.parametrize(("name", "collective"), algorithms.pairs())
def test_alone_nothing_is_sent(name: str, collective: str) -> None:
    assert algorithms.build(name, collective, 1).chunks_sent().tolist() == [0]


@pytest.mark.parametrize("name", REGISTRY)
def test_an_algorithm_is_one_short_file(name: str) -> None:
    (path,) = Path(algorithms.__file__).parent.rglob(f"{name}.py")
    assert len(path.read_text(encoding="utf-8").splitlines()) < max(85, 15 * len(REGISTRY[name].serves))


def test_every_collective_is_served() -> None:
    assert {c for _, c in algorithms.pairs()} == set(COLLECTIVES)
    assert all(algorithms.serving(c) for c in COLLECTIVES)


def test_names_source_and_summary_are_there() -> None:
    for name, algorithm in REGISTRY.items():
        assert algorithm.name == name
        assert algorithm.source[-4:].isdigit(), f"{name}: a source ends with its year"
        assert algorithm.summary.endswith("."), name
        assert algorithm.when.endswith("."), name


def test_a_module_is_read_in_parts() -> None:
    module = ModuleType("made_up", "Made up: to be read.\n\nOne way\nto do it.\n")
    module.SOURCE, module.WHEN = "Nobody: A title, 2000", "never, or in a test."  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match=r"serves \[\], .* expected functions named like collectives"):
        registry.read(module)
    module.reduce = lambda ranks, root: None  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match=r"states the cost of \[\], serves \['reduce'\], names its SOURCE"):
        registry.read(module)
    cost(1, S)(module.reduce)
    got = registry.read(module)
    assert (got.summary, got.about) == ("Made up: to be read.", ("One way to do it.",))
    assert (got.source, got.when, str(got.costs["reduce"].sent)) == (
        "Nobody: A title, 2000",
        "never, or in a test.",
        "S",
    )
    del module.SOURCE, module.WHEN
    with pytest.raises(ImportError, match="lacks its SOURCE, lacks WHEN to use it"):
        registry.read(module)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rign", "all_reduce", 4), r"no algorithm 'rign': expected one of ring, "),
        (("ring", "all_to_all", 4), r"ring does not serve all_to_all: expected one of one_shot"),
        (("ring", "allreduce", 4), r"no collective 'allreduce': expected one of all_reduce"),
        (("ring", "all_reduce", 0), r"ring all_reduce over 0 ranks: expected at least 1"),
        (("ring", "all_reduce", 4, 1), r"all_reduce has no root: got root 1"),
        (("chain", "broadcast", 4, 4), r"broadcast with root 4: expected a rank, 0\.\.3"),
    ],
)
def test_a_mistake_raises_with_the_expectation(arguments: tuple[str, str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        algorithms.build(*arguments)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ring all_reduce has no option 'group': it has none"):
        algorithms.build("ring", "all_reduce", 4, group=2)
    for wrong in ("2", 2.0, [2]):
        with pytest.raises(TypeError, match=r"group: got .*; expected a whole number"):
            algorithms.build("split_tree", "all_reduce", 4, group=wrong)
    with pytest.raises(TypeError, match=r"ranks: got '4'; expected a whole number"):
        algorithms.build("ring", "all_reduce", "4")  # type: ignore[arg-type]
    assert algorithms.build("split_tree", "all_reduce", 4, group=None).ranks == 4
