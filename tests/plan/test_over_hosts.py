"""The choice over hosts: nested where that is faster, the same on every rank, right for any layout."""

from __future__ import annotations

import pytest

from ringtree.ir.collective import COLLECTIVES
from ringtree.plan import choose_over_hosts
from ringtree.price import Hosts, SharedMemory
from ringtree.verify import prove

MEMORY = SharedMemory(cores=8, slots=8, slot_bytes=1 << 17)
LAYOUTS = [(0, 1), (0, 0, 1, 1, 2, 2), (0, 0, 1), (0, 1, 0, 1), (0, 1, 1, 1, 2, 2)]


def hosts(layout: tuple[int, ...], latency_s: float = 30e-6) -> Hosts:
    return Hosts(layout, MEMORY, latency_s, 235e6)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("collective", list(COLLECTIVES))
def test_a_choice_is_proved(collective: str, layout: tuple[int, ...]) -> None:
    root = len(layout) - 1 if COLLECTIVES[collective].rooted else None
    for nbytes in (0, 8, 1 << 16, 1 << 24):
        found = choose_over_hosts(collective, hosts(layout), root, nbytes)
        schedule = found.steps.apply(found.algorithm, collective, len(layout), root)
        prove(schedule)
        assert "predicted" in found.why and f"{len(set(layout))} hosts" in found.why


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter"])
def test_long_vectors_are_nested_in_equal_hosts(collective: str) -> None:
    found = choose_over_hosts(collective, hosts((0, 0, 1, 1, 2, 2)), None, 1 << 26)
    assert found.algorithm == "hierarchical"
    assert dict(found.steps.options)["group"] == 2


def test_hosts_of_unequal_ranks_are_not_nested() -> None:
    assert choose_over_hosts("all_reduce", hosts((0, 0, 1)), None, 1 << 26).algorithm != "hierarchical"


def test_a_longer_delay_changes_the_choice() -> None:
    near, far = (choose_over_hosts("all_to_all", hosts((0, 0, 1, 1, 2, 2), s), None, 1 << 16) for s in (30e-6, 1e-3))
    assert near.algorithm == "pairwise" and far.algorithm == "bruck"
    assert "1e+03 us" in far.why


def test_rank_order_leaves_what_agrees_to_the_last_bit() -> None:
    found = choose_over_hosts("all_reduce", hosts((0, 0, 1, 1)), None, 1 << 20, rank_order=True)
    assert found.algorithm in ("one_shot", "two_shot")
