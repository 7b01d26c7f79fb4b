"""Whole steps that others published are those of rates that a GPU reaches."""

from __future__ import annotations

from pathlib import Path

from benchmarks.published_steps import NOMINAL_FLOPS_A_S, published


def test_larger_matrices_are_computed_at_higher_rates(data_folder: Path) -> None:
    rates = [one.rate_flops_a_s() / NOMINAL_FLOPS_A_S for one in published(data_folder)]
    assert rates == sorted(rates) and 0.45 < rates[0] < 0.55 and 0.7 < rates[-1] < 0.8
