"""Costs are data: a formula evaluates as printed, and no cost is in a docstring."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.algorithms import REGISTRY, pairs
from ringtree.algorithms.cost import AtMost, Cost, Expression, Formula, S, Term, at_most, cost, lg, minimum, n, p


def read_as_python(formula: Formula, ranks: int, nbytes: float) -> float:
    """What the printed formula means, by Python's own grammar."""
    names = {"n": ranks, "S": nbytes, "p": 1 << (ranks.bit_length() - 1), "min": min}
    names |= {"lg": lambda x: (x - 1).bit_length()}
    left: list[Formula] = [formula]
    while left:
        part = left.pop()
        names |= {part.name: part.of(ranks)} if isinstance(part, Term) else {}
        left += part.parts()
    value: float = eval(str(formula).removeprefix("at most "), {"__builtins__": {}}, names)
    return value


WHOLE = st.recursive(
    st.sampled_from([n, p, n + 1]) | st.integers(1, 9),
    lambda inner: (
        st.builds(lambda a, b: lg(a) + b, inner, inner)
        | st.builds(lambda a, b: n * a + b, inner, inner)
        | st.builds(minimum, inner, inner)
    ),
    max_leaves=5,
)
FORMULAS = st.recursive(
    WHOLE.map(lambda x: x * S),
    lambda inner: (
        st.builds(lambda a, b: a + b, inner, inner)
        | st.builds(lambda a, b: a - b, inner, inner)
        | st.builds(lambda a, b: 1 - (a - b) / n, inner, inner)
        | st.builds(lambda a, b: 2 / (n + 1) * a + b * (n > 4), inner, inner)
        | st.builds(lambda a, b: a + 3 * (b < n), inner, inner)
    ),
    max_leaves=9,
)


@given(FORMULAS, st.integers(2, 70), st.integers(1, 1 << 30))
def test_a_formula_evaluates_as_printed(formula: Expression, ranks: int, nbytes: int) -> None:
    assert formula.evaluate(ranks, nbytes) == read_as_python(formula, ranks, nbytes)


@pytest.mark.parametrize(("name", "collective"), pairs())
def test_a_stated_cost_evaluates_as_printed(name: str, collective: str) -> None:
    stated = REGISTRY[name].costs[collective]
    for ranks in (2, 3, 8, 12, 17, 100):
        for formula in (stated.rounds, stated.sent):
            assert formula.evaluate(ranks, 4096.0) == read_as_python(formula, ranks, 4096.0), formula


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (2 * (n - 1) / n * S, "2*(n-1)/n*S"),
        (n - (p - 1), "n-(p-1)"),
        (n - 1 - p, "n-1-p"),
        (S / (n * 2), "S/(n*2)"),
        ((n > p) * S + lg(n + 1) * (1 + (n < 3)), "(n>p)*S+lg(n+1)*(1+(n<3))"),
        (at_most(minimum(n - 1, 2) * S), "at most min(n-1,2)*S"),
    ],
)
def test_brackets_are_where_they_are_needed(formula: Formula, text: str) -> None:
    assert str(formula) == repr(formula) == text


def test_a_decorator_states_a_cost() -> None:
    @cost(1, at_most(S), pipelines=True)
    def broadcast(ranks: int, root: int) -> None: ...

    stated: Cost = broadcast.cost  # type: ignore[attr-defined]
    assert stated.evaluate(9, 64.0) == (1.0, 64.0) and stated.pipelines and isinstance(stated.sent, AtMost)


def test_mistakes_are_refused() -> None:
    with pytest.raises(TypeError, match=r"\(n-1<2\) has a value only for a number of ranks; expected minimum\(\)"):
        min(2, n - 1)  # type: ignore[type-var]
    with pytest.raises(TypeError, match=r"a cost: got 0\.5; expected a whole number or an expression in n and S"):
        cost(0.5, S)  # type: ignore[arg-type]


def test_terms_are_listed_with_their_meaning() -> None:
    assert REGISTRY["split_tree"].terms == "g ranks a group, h = n/g groups"
    assert REGISTRY["torus_3d"].terms == "n = x*y*z, as near to a cube as can be"
    assert REGISTRY["ring"].terms == ""


@pytest.mark.parametrize(
    "words",
    [
        ("-m", "ringtree.cli", "prove", "ring", "-n", "4"),
        ("-m", "ringtree.cli", "algorithms"),
        ("-m", "ringtree.cli", "plan", "all_reduce", "-n", "4", "--bytes", "1M"),
    ],
)
def test_without_docstrings_all_is_there(words: tuple[str, ...]) -> None:
    """python -OO drops docstrings and assertions."""
    done = subprocess.run([sys.executable, "-OO", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "2*(n-1)" in done.stdout or "proved 3 schedules" in done.stdout or "is chosen" in done.stdout
