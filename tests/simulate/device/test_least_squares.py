"""Least squares: a minimum that is known is found, within bounds, with its uncertainty."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from ringtree.simulate.device.least_squares import minimum

Floats = NDArray[np.float64]
X = np.linspace(0.5, 4, 20)


def decay(noise: Floats) -> Callable[[Floats], tuple[Floats, Callable[[], Floats]]]:
    """Residuals of a exp(-b x) to 3 exp(-0.7 x) and noise."""
    measured = 3 * np.exp(-0.7 * X) + noise

    def model(p: Floats) -> tuple[Floats, Callable[[], Floats]]:
        there = np.exp(-p[1] * X)
        return p[0] * there - measured, lambda: np.stack([there, -X * p[0] * there], axis=1)

    return model


LOW, HIGH = np.array([0.0, 0.0]), np.array([10.0, 10.0])


def test_the_minimum_is_found() -> None:
    found = minimum(decay(np.zeros(20)), np.array([1.0, 2.0]), LOW, HIGH, 50)
    assert found.parameters == pytest.approx([3, 0.7], rel=1e-4) and found.cost < 1e-8


def test_a_bound_holds_and_the_rest_is_best_there() -> None:
    found = minimum(decay(np.zeros(20)), np.array([1.0, 2.0]), LOW, np.array([2.0, 10.0]), 50)
    b = np.linspace(0.01, 2, 2000)
    costs = ((2 * np.exp(-b[:, None] * X) - 3 * np.exp(-0.7 * X)) ** 2).sum(axis=1)
    assert found.parameters == pytest.approx([2, b[costs.argmin()]], abs=2e-3)


def test_errors_are_as_wide_as_the_parameters_scatter() -> None:
    rng = np.random.default_rng(1)
    found = [minimum(decay(rng.normal(0, 0.05, 20)), np.array([1.0, 2.0]), LOW, HIGH, 50) for _ in range(200)]
    scatter = np.std([f.parameters for f in found], axis=0)
    assert np.median([f.errors() for f in found], axis=0) == pytest.approx(scatter, rel=0.2)


def test_what_the_rows_do_not_show_has_no_finite_error() -> None:
    def model(p: Floats) -> tuple[Floats, Callable[[], Floats]]:
        return p[0] - X, lambda: np.stack([np.ones(20), np.zeros(20)], axis=1)

    errors = minimum(model, np.array([1.0, 5.0]), LOW, HIGH, 50).errors()
    assert np.isfinite(errors[0]) and np.isinf(errors[1])


def test_a_row_left_out_is_as_far_as_without_it() -> None:
    """Of a line, the leverage is exact."""
    columns, measured = np.stack([np.ones(20), X], axis=1), np.sin(9 * X)

    def model(p: Floats) -> tuple[Floats, Callable[[], Floats]]:
        return columns @ p - measured, lambda: columns

    found = minimum(model, np.array([1.0, 1.0]), np.full(2, -10.0), HIGH, 50).left_out()
    for row in range(20):
        others = np.arange(20) != row
        p = np.linalg.lstsq(columns[others], measured[others], rcond=None)[0]
        assert found[row] == pytest.approx(columns[row] @ p - measured[row], abs=1e-3)
