"""The rule names algorithms that exist, for every collective at every size."""

import pytest

from ringtree.algorithms import build, serving
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.lower import lower
from ringtree.plan import choose, shortlist
from ringtree.plan.choose import AT_ONCE, IN_RANK_ORDER
from ringtree.verify import Order, prove_programs, rank_order
from tests.effort import counted


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 16, 64])
def test_what_is_chosen_serves(collective, ranks):
    for nbytes in (0, 8, 4096, 1 << 20, 1 << 30):
        choice = choose(collective, ranks, nbytes)
        assert choice.algorithm in serving(collective) and choice.why, nbytes


@pytest.mark.parametrize("collective", IN_RANK_ORDER)
def test_the_order_is_what_the_schedules_say(collective):
    def least(name):
        roots = [0, 2, 4] if COLLECTIVES[collective].rooted else [None]
        return min(rank_order(build(name, collective, 5, root)) for root in roots)

    for name in serving(collective):
        assert (name in AT_ONCE.get(collective, ())) == (least(name) is Order.FOLD), name
        assert (name in IN_RANK_ORDER[collective]) == (least(name) >= Order.ASSOCIATIVE), name


def test_latency_and_bytes_pull_apart():
    assert choose("all_reduce", 2, 8).algorithm != choose("all_reduce", 2, 1 << 20).algorithm


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_what_comes_into_question_fits_a_groups_slots(collective, ranks):
    for name in shortlist(collective, ranks):
        schedule = build(name, collective, ranks, 0 if COLLECTIVES[collective].rooted else None)
        assert prove_programs(lower(schedule)).slots <= 8, name


def test_thousands_of_ranks_choose_at_once():
    with counted() as effort:
        for collective in COLLECTIVES:
            assert choose(collective, 100_000, 1 << 20).algorithm in serving(collective)
    assert effort.calls < 2_000_000  # the same at any number of ranks: what was learnt of fewer serves


def test_unknown_collective():
    with pytest.raises(ValueError, match="no collective 'nothing'"):
        choose("nothing", 2, 8)
