"""The choice over hosts: nested where that is faster, the same on every rank, right for any layout."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from ringtree.algorithms import build
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.schedule import Schedule
from ringtree.plan import candidates_over_hosts, choose_over_hosts
from ringtree.plan.choice import shortlist
from ringtree.plan.nesting import nestings
from ringtree.plan.over_hosts import INNER, NESTED_FOR_BLOCKS, OUTER, _priced_nestings
from ringtree.plan.steps import MOST_TRANSFERS
from ringtree.price import Hosts, SharedMemory, seconds
from ringtree.runtime.engines.shm import staging
from ringtree.verify import prove

MEMORY = SharedMemory(cores=8, slots=8, slot_bytes=1 << 17)
LAYOUTS = [(0, 1, 0, 1), (0, 1, 1, 1, 2, 2)]
"""Hosts in turn, and hosts of several sizes; a rank each, equal hosts and two sizes are slow tests."""
MORE = [pytest.param(one, marks=pytest.mark.slow) for one in ((0, 1), (0, 0, 1), (0, 0, 1, 1, 2, 2))]


def hosts(layout: tuple[int, ...], latency_s: float = 30e-6) -> Hosts:
    return Hosts(layout, MEMORY, latency_s, 235e6)


@pytest.mark.parametrize("layout", [*LAYOUTS, *MORE], ids=str)
@pytest.mark.parametrize("collective", list(COLLECTIVES))
def test_a_choice_is_proved(collective: str, layout: tuple[int, ...]) -> None:
    root = len(layout) - 1 if COLLECTIVES[collective].rooted else None
    for nbytes in (0, 1 << 16, 1 << 24):
        found = choose_over_hosts(collective, hosts(layout), root, nbytes)
        schedule = found.steps.apply(found.algorithm, collective, len(layout), root)
        prove(schedule)
        assert "predicted" in found.why and f"{len(set(layout))} hosts" in found.why


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter"])
def test_long_vectors_are_nested_in_equal_hosts(collective: str) -> None:
    found = choose_over_hosts(collective, hosts((0, 0, 1, 1, 2, 2)), None, 1 << 26)
    assert found.algorithm == "hierarchical"
    assert dict(found.steps.options)["group"] == 2


def test_windows_go_side_by_side_where_each_would_wait_for_the_latency() -> None:
    far, near = (choose_over_hosts("all_reduce", hosts((0, 1), s), None, 1 << 22).steps for s in (1e-3, 1e-6))
    assert far.channels == MEMORY.slots // 2 and near.channels == 1


def crossing(schedule: Schedule, layout: tuple[int, ...]) -> tuple[int, float]:
    """Messages that cross the network, and their part of the vector."""
    rows, host = schedule.expand(), np.array(layout)
    away = rows.take(host[rows.source] != host[rows.target])
    return len(away), float(away.count.sum() / schedule.chunks)


@pytest.mark.parametrize("layout", [(0, 0, 0, 1), (0, 1, 0, 1), (0, 1, 1, 1, 2, 2)], ids=str)
def test_over_a_slow_network_any_hosts_are_nested(layout: tuple[int, ...]) -> None:
    where = hosts(layout, 1e-3)
    for nbytes in (8, 1 << 24):
        found = choose_over_hosts("all_reduce", where, None, nbytes)
        assert found.algorithm == "hierarchical" and " in hosts and " in found.why
        assert dict(found.steps.options)["group"] == ",".join(map(str, layout))
        nested = found.steps.apply(found.algorithm, "all_reduce", len(layout))
        unnested = [build(name, "all_reduce", len(layout)) for name in shortlist("all_reduce", len(layout))]
        fastest = min((s for s in unnested if s.name != "hierarchical"), key=lambda s: seconds(s, where, nbytes))
        assert seconds(nested, where, nbytes) < seconds(fastest, where, nbytes)
        (messages, vectors), (others, other_vectors) = crossing(nested, layout), crossing(fastest, layout)
        assert vectors <= other_vectors and (messages < others or vectors < other_vectors), fastest.name


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "broadcast", "reduce"])
def test_other_collectives_are_nested_where_that_is_faster(collective: str) -> None:
    root = 4 if COLLECTIVES[collective].rooted else None
    found = [choose_over_hosts(collective, hosts((0, 1, 1, 1, 2, 2), 1e-3), root, n).algorithm for n in (8, 1 << 13)]
    assert found == ["hierarchical"] * 2


@pytest.mark.parametrize(
    ("collective", "layout", "messages"),
    [
        ("all_to_all", (0, 0, 0, 0, 1, 1, 1, 1), (8, 32)),  # each rank one to the other host, in place of four
        ("all_to_all", (0, 1, 1, 1, 2, 2), (12, 22)),
        ("gather", (0, 0, 0, 0, 1, 1, 1, 1), (1, 4)),
        ("scatter", (0, 1, 1, 1, 2, 2), (2, 3)),
    ],
)
def test_short_blocks_cross_the_network_together(
    collective: str, layout: tuple[int, ...], messages: tuple[int, int]
) -> None:
    where, root = hosts(layout, 60e-6), 1 if COLLECTIVES[collective].rooted else None
    found = choose_over_hosts(collective, where, root, 8 * len(layout))
    assert found.algorithm == "hierarchical"
    together = crossing(found.steps.apply(found.algorithm, collective, len(layout), root), layout)
    each = crossing(build("one_shot" if root is None else "flat", collective, len(layout), root), layout)
    assert (together[0], each[0]) == messages and together[1] == each[1], "as many bytes, in fewer messages"


def many(ranks: int) -> Hosts:
    """Hosts of 8 ranks, with the staging that the engine has for so many."""
    slots, slot_bytes = staging(ranks, latency_s=30e-6)
    return Hosts(tuple(rank // 8 for rank in range(ranks)), SharedMemory(8, slots, slot_bytes))


def test_an_exchange_of_too_many_blocks_to_prove_is_not_nested() -> None:
    assert len(_priced_nestings("all_to_all", many(128), None, 1 << 10)) == 3
    assert not _priced_nestings("all_to_all", many(256), None, 1 << 10)
    assert _priced_nestings("gather", many(256), 0, 1 << 10)


@pytest.mark.parametrize("collective", ["all_gather", pytest.param("reduce_scatter", marks=pytest.mark.slow)])
def test_blocks_of_many_ranks_enter_a_host_once(collective: str) -> None:
    """What each rank would send to each of 128 takes the network 8 times as long."""
    where = many(128)
    found = choose_over_hosts(collective, where, None, 1 << 20)
    assert found.algorithm == "hierarchical" and found.steps.slots <= where.memory.slots
    _, part = crossing(found.steps.apply(found.algorithm, collective, 128, None), where.host_of)
    assert part <= 16


@pytest.mark.parametrize(
    ("collective", "ranks", "is_priced"),
    [
        ("all_reduce", 256, False),
        pytest.param("all_reduce", 128, True, marks=pytest.mark.slow),
        pytest.param("all_gather", 320, True, marks=pytest.mark.slow),  # nothing nested is proved there
    ],
)
def test_what_sends_to_each_of_many_ranks_is_not_priced_beside_what_is_nested(
    collective: str, ranks: int, is_priced: bool
) -> None:
    found = candidates_over_hosts(collective, many(ranks), None, 1 << 10)
    assert ("two_shot" in {candidate.algorithm for candidate in found}) == is_priced


def test_no_more_windows_are_side_by_side_than_are_proved() -> None:
    where = replace(many(64), latency_s=2e-3)
    for candidate in candidates_over_hosts("all_reduce", where, None, 1 << 24):
        schedule = replace(candidate.steps, channels=1).apply(candidate.algorithm, "all_reduce", 64, None)
        assert candidate.steps.channels == 1 or schedule.transfers * candidate.steps.channels <= MOST_TRANSFERS


@pytest.mark.parametrize("collective", NESTED_FOR_BLOCKS)
def test_long_blocks_go_their_own_way(collective: str) -> None:
    root = 1 if COLLECTIVES[collective].rooted else None
    assert choose_over_hosts(collective, hosts((0, 0, 1, 1)), root, 64 << 20).algorithm != "hierarchical"


@pytest.mark.slow
def test_many_ranks_at_random_have_a_nesting_that_fits_the_slots() -> None:
    layout = tuple(int(host) for host in np.random.default_rng(0).integers(0, 6, 30))
    assert choose_over_hosts("all_reduce", hosts(layout), None, 1 << 24).algorithm == "hierarchical"


def test_a_longer_delay_changes_the_choice() -> None:
    near, far = (choose_over_hosts("all_gather", hosts((0, 0, 1, 1, 2, 2), s), None, 1 << 20) for s in (30e-6, 5e-3))
    assert near.algorithm == "hierarchical" and far.algorithm == "two_shot"
    assert "5e+03 us" in far.why


def test_rank_order_leaves_what_agrees_to_the_last_bit() -> None:
    found = choose_over_hosts("all_reduce", hosts((0, 0, 1, 1)), None, 1 << 20, rank_order=True)
    assert found.algorithm in ("one_shot", "two_shot")


@pytest.mark.parametrize(
    "layout",
    [
        (0, 0, 1, 1),
        pytest.param((0, 0, 0, 1, 2, 2), marks=pytest.mark.slow),
        pytest.param((0, 1, 2, 2, 2, 2, 2), marks=pytest.mark.slow),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("collective", "root"),
    [("all_reduce", None), ("all_gather", None), ("broadcast", 0), ("reduce", 0), ("gather", 0), ("all_to_all", None)],
)
def test_the_quickest_nesting_of_all_is_considered(collective: str, root: int | None, layout: tuple[int, ...]) -> None:
    for latency_s, nbytes in ((5e-6, 1 << 16), (1e-3, 1 << 10), (30e-6, 1 << 21)):
        where, all_s = hosts(layout, latency_s), []
        inner, outer = NESTED_FOR_BLOCKS.get(collective, (INNER, OUTER))
        for options in nestings(layout, inner, outer):
            with suppress(ValueError):
                schedule = build("hierarchical", collective, len(layout), root, **dict(options))
                all_s.append(seconds(schedule, where, nbytes))
        found = [c.time_s for c in _priced_nestings(collective, where, root, nbytes)]
        assert min(found) == min(all_s)
        assert len(found) < len(all_s) or len(all_s) <= len(inner) + len(outer)
