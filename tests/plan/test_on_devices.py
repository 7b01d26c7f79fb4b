"""The choice on devices: few rounds for short vectors, few bytes for long ones, fewer rounds where turns are long."""

from __future__ import annotations

import pytest

from ringtree.plan import choose_on_devices
from ringtree.price import Devices

APART = Devices(tuple(range(8)), 3e-6, 4e-6, 4e12, 3e11, "test figures")
TURNS = Devices((0,) * 4, 300e-6, 4e-6, 4e12, 4e12, "test figures")


@pytest.mark.parametrize(("nbytes", "algorithm"), [(8, "one_shot"), (1 << 28, "two_shot")])
def test_all_reduce_by_its_size(nbytes: int, algorithm: str) -> None:
    assert choose_on_devices("all_reduce", APART, None, nbytes).algorithm == algorithm


def test_long_turns_favour_few_rounds() -> None:
    assert choose_on_devices("all_reduce", TURNS, None, 1 << 24).algorithm == "one_shot"


def test_the_reason_names_both_candidates_and_the_source() -> None:
    why = choose_on_devices("all_reduce", APART, None, 1 << 28).why
    assert "predicted" in why and " for " in why and why.endswith("by test figures")


def test_rank_order_is_kept() -> None:
    assert choose_on_devices("all_reduce", APART, None, 1 << 28, rank_order=True).algorithm in ("one_shot", "two_shot")
