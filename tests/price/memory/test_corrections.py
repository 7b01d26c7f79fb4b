"""Corrections of predicted times: exact where calls were measured, between them in between, elsewhere none."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.plan import choose, predict, steps_for
from ringtree.price.memory import BUILT_IN, SharedMemory
from ringtree.price.memory.corrections import Correction, Corrections, corrections_from

KNOWN = Corrections(
    [
        Correction("reduce", "flat", 4, 1 << 20, 0.5),
        Correction("reduce", "flat", 4, 1 << 10, 2.0),
        Correction("reduce", "flat", 8, 1 << 10, 3.0),
        Correction("gather", "flat", 4, 1 << 10, 5.0),
    ]
)


@pytest.mark.parametrize(
    ("collective", "ranks", "nbytes", "factor"),
    [
        ("reduce", 4, 1 << 10, 2.0),
        ("reduce", 4, 1 << 20, 0.5),
        ("reduce", 4, 1 << 15, 1.0),
        ("reduce", 4, 1 << 11, 2 / 4**0.1),
        ("reduce", 4, 0, 2.0),
        ("reduce", 4, 1 << 40, 0.5),
        ("reduce", 8, 1 << 20, 3.0),
        ("reduce", 2, 1 << 10, 1.0),
        ("gather", 4, 1, 5.0),
        ("scatter", 4, 1 << 10, 1.0),
    ],
)
def test_a_factor_follows_the_size(collective: str, ranks: int, nbytes: int, factor: float) -> None:
    assert KNOWN.factor(collective, "flat", ranks, nbytes) == pytest.approx(factor)
    assert KNOWN.factor(collective, "binomial", ranks, nbytes) == 1.0


@given(st.integers(0, 1 << 30))
def test_a_factor_is_between_the_measured_ones(nbytes: int) -> None:
    assert 0.5 * (1 - 1e-9) <= KNOWN.factor("reduce", "flat", 4, nbytes) <= 2 * (1 + 1e-9)


def test_rows_become_the_same_corrections() -> None:
    again = corrections_from([list(row) for row in reversed(KNOWN.all)])
    assert again == KNOWN and (hash(again), repr(again)) == (hash(KNOWN), repr(KNOWN)) and len(again) == 4
    assert again != (fewer := Corrections(KNOWN.all[1:])) and repr(again) != repr(fewer)


@pytest.mark.parametrize(
    "row",
    [
        [],
        ["reduce", "flat", 4, 8],
        ["reduce", "flat", 0, 8, 1.0],
        ["reduce", "flat", 4, -8, 1.0],
        ["reduce", "flat", 4, 8, 0.0],
        ["reduce", "flat", 4, 8, float("nan")],
        ["reduce", "flat", 4, 8, 1e9],
        ["reduce", "flat", "many", 8, 1.0],
        ["reduce", ["flat"], 4, 8, 1.0],
        ["reduce", "flat", 10**30, 8, 1.0],
        "reduce",
        None,
    ],
)
def test_other_rows_are_refused(row: list[object]) -> None:
    with pytest.raises(ValueError, match=r"^correction .*; expected"):
        corrections_from([row])


def test_what_is_no_list_is_refused() -> None:
    with pytest.raises(ValueError, match="corrections are None; expected a list"):
        corrections_from(None)


@pytest.mark.parametrize("factor", [0.25, 4.0, sqrt(2)])
def test_a_prediction_is_multiplied_in_all_its_parts(factor: float) -> None:
    plain = SharedMemory(4, 8, 1 << 17)
    named = Corrections([Correction("all_gather", "ring", 4, 1 << 20, factor)])
    corrected = replace(plain, parameters=replace(BUILT_IN, corrections=named))
    what = "ring", "all_gather", 4, None
    steps = steps_for(*what, 1 << 20, plain)
    before, after = (predict(*what, 1 << 20, steps, memory) for memory in (plain, corrected))
    assert after.seconds == pytest.approx(before.seconds * factor)
    assert after.copy_s == pytest.approx(before.copy_s * factor)


def test_the_choice_is_by_the_corrected_times() -> None:
    plain = SharedMemory(4, 8, 1 << 17)
    first = choose("all_reduce", 4, 1 << 16, memory=plain).algorithm
    slower = Corrections([Correction("all_reduce", first, 4, 1 << 16, 100.0)])
    corrected = replace(plain, parameters=replace(BUILT_IN, corrections=slower))
    assert choose("all_reduce", 4, 1 << 16, memory=corrected).algorithm != first
    assert choose("all_reduce", 8, 1 << 16, memory=corrected) == choose("all_reduce", 8, 1 << 16, memory=plain)
