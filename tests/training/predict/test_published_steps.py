"""Whole steps that others published are those of rates that a GPU reaches."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.published_steps import NOMINAL_FLOPS_A_S, published


def test_larger_matrices_are_computed_at_higher_rates(data_folder: Path) -> None:
    rates = [one.rate_flops_a_s() / NOMINAL_FLOPS_A_S for one in published(data_folder)]
    assert rates == sorted(rates) and 0.45 < rates[0] < 0.55 and 0.7 < rates[-1] < 0.8


def test_steps_that_compute_activations_again_take_their_published_time(data_folder: Path) -> None:
    """At the rate of the steps that do not: within a twentieth, where they take a third more."""
    for one in published(data_folder):
        assert one.estimated_recomputed_s() == pytest.approx(one.recomputed_s, rel=0.05)
