"""The order in which sums are formed: by hand, and as an operation that is not even associative would see it."""

from __future__ import annotations

import pytest

from ringtree.algorithms import build, pairs
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.lower import lower
from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers
from ringtree.transform import balance, channels, many_source, pipeline
from ringtree.verify import ReductionOrder, is_balanced, prove, rank_order
from tests.verify.by_hand import of, through_two_buffers
from tests.verify.sums import balanced_tree, flat, formed

REDUCING = [(a, c) for a, c in pairs() if COLLECTIVES[c].reduces and not COLLECTIVES[c].repeats]


def seen(s: Schedule) -> ReductionOrder:
    """The weakest order over the outputs."""
    least = ReductionOrder.FOLD
    for tree in formed(lower(s), s):
        ranks = flat(tree)
        order = ReductionOrder.ASSOCIATIVE if ranks == sorted(ranks) else ReductionOrder.ANY
        least = min(least, ReductionOrder.FOLD if tree in (ranks, ranks[0]) and order else order)
    return least


@pytest.mark.parametrize(("name", "collective"), REDUCING)
def test_the_order_is_that_of_the_operations(name: str, collective: str) -> None:
    for n in (1, 2, 3, 5, 8):
        for root in sorted({0, n // 2, n - 1}) if COLLECTIVES[collective].rooted else [None]:
            schedule = build(name, collective, n, root)
            for changed in (schedule, channels(pipeline(schedule, 2), 2)):
                assert rank_order(changed) == seen(changed), (n, root)


def adds_up_in_balance(s: Schedule) -> bool:
    """Whether the programs form every output by the balanced tree over the ranks that they add up."""
    return all(tree == balanced_tree(0, len(flat(tree))) for tree in formed(lower(s), s))


@pytest.mark.parametrize("ranks", [(1, 2, 3, 4, 6, 7, 9), pytest.param((12, 16), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize(("name", "collective"), REDUCING)
def test_the_balance_is_that_of_the_operations(name: str, collective: str, ranks: tuple[int, ...]) -> None:
    for n in ranks:
        for root in sorted({0, n // 2, n - 1}) if COLLECTIVES[collective].rooted else [None]:
            plain = build(name, collective, n, root)
            for schedule in (plain, balance(plain), channels(pipeline(balance(plain), 2), 2), many_source(plain)):
                assert is_balanced(schedule) == adds_up_in_balance(schedule), (n, root)


def test_three_at_once_are_no_balanced_tree() -> None:
    """They round once, and two at a time twice; over rows of several rounds they are joined two at a time."""
    both = (Transfers.of(1, 0, reduce=True), Transfers.of(2, 0, reduce=True))
    assert not is_balanced(of("reduce", 3, 1, *both, root=0))
    assert is_balanced(of("reduce", 3, 1, both[0], Transfers.of(2, 0, reduce=True, round=1), root=0))
    right_first = (Transfers.of(2, 1, reduce=True), Transfers.of(1, 0, reduce=True, round=1))
    assert not is_balanced(of("reduce", 3, 1, *right_first, root=0))
    with pytest.raises(ValueError, match="ring: all_gather reduces nothing"):
        is_balanced(build("ring", "all_gather", 4))


@pytest.mark.parametrize(
    ("name", "collective", "order"),
    [
        ("ring", "all_reduce", ReductionOrder.ANY),
        ("one_shot", "all_reduce", ReductionOrder.FOLD),
        ("two_shot", "all_reduce", ReductionOrder.FOLD),
        ("hillis_steele", "scan", ReductionOrder.ASSOCIATIVE),
        ("hillis_steele", "exscan", ReductionOrder.ASSOCIATIVE),
    ],
)
def test_of_some(name: str, collective: str, order: ReductionOrder) -> None:
    assert rank_order(build(name, collective, 6)) is order


def test_the_target_goes_first() -> None:
    def to(root: int, *rows: Transfers) -> Schedule:
        schedule = of("reduce", 3, 1, *rows, root=root)
        prove(schedule)
        assert rank_order(schedule) == seen(schedule)
        return schedule

    both = (Transfers.of(1, 0, reduce=True), Transfers.of(2, 0, reduce=True))
    assert rank_order(to(0, *both)) is ReductionOrder.FOLD
    assert rank_order(to(0, *both[::-1])) is ReductionOrder.ANY
    apart = (both[0], Transfers.of(2, 0, reduce=True, round=1))
    assert rank_order(to(0, *apart)) is ReductionOrder.ASSOCIATIVE
    chain = (Transfers.of(2, 1, reduce=True), Transfers.of(1, 0, reduce=True, round=1))
    assert rank_order(to(0, *chain)) is ReductionOrder.ASSOCIATIVE
    assert (
        rank_order(to(2, Transfers.of(0, 1, reduce=True), Transfers.of(1, 2, reduce=True, round=1)))
        is ReductionOrder.ANY
    )
    around = (Transfers.of(0, 2, reduce=True), Transfers.of(2, 1, reduce=True, round=1))
    assert rank_order(to(1, *around)) is ReductionOrder.ANY


def test_forwarded_chunks_keep_their_order() -> None:
    add = Transfers.of(
        [0, 1, 2], 2, reduce=[False, True, True], source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT
    )
    relay = Transfers.of(2, [0, 1], round=1, source_buffer=Buffer.OUTPUT, target_buffer=Buffer.OUTPUT)
    schedule = Schedule("relayed", "all_reduce", 3, 1, (Block(Transfers.concatenate([add, relay])),))
    prove(schedule)
    assert rank_order(schedule) is seen(schedule) is ReductionOrder.FOLD


def test_ranges_that_overlap_are_added_up_in_steps() -> None:
    rows = (Transfers.of(1, 0, 0, count=2, reduce=True), Transfers.of(2, 0, [0, 1], reduce=True))
    schedule = of("reduce", 3, 2, *rows, root=0)
    prove(schedule)
    assert rank_order(schedule) is seen(schedule) is ReductionOrder.ASSOCIATIVE


def test_ranges_that_begin_alike_overlap() -> None:
    """Chunks 1 to 3 from one rank and 1 to 2 from another; chunk 3 comes as another rank's fold."""

    def fold(rank: int, chunk: int, count: int, last: int) -> list[Transfers]:
        counts = enumerate((count, count, last))
        return [through_two_buffers(i, rank, chunk, count=k, reduce=i > 0) for i, k in counts]

    rows = [*fold(0, 0, 1, 1), *fold(0, 1, 3, 2), *fold(1, 0, 4, 4), *fold(2, 0, 4, 4)]
    whole = Transfers.of(1, 0, 3, round=1, source_buffer=Buffer.OUTPUT, target_buffer=Buffer.OUTPUT)
    schedule = of("all_reduce", 3, 4, *rows, whole)
    prove(schedule)
    assert rank_order(schedule) is seen(schedule) is ReductionOrder.ASSOCIATIVE


def test_ranges_that_overlap_in_another_round_do_not_count() -> None:
    everyone = [0, 1, 2]
    first = through_two_buffers(0, everyone, count=2), through_two_buffers(0, everyone)
    then = [through_two_buffers(i, everyone, count=2, reduce=True, round=1) for i in (1, 2)]
    schedule = of("all_reduce", 3, 2, *first, *then)
    prove(schedule)
    assert rank_order(schedule) is seen(schedule) is ReductionOrder.FOLD


def test_nothing_reduced_has_no_order() -> None:
    with pytest.raises(ValueError, match="ring: all_gather reduces nothing, so it has no order"):
        rank_order(build("ring", "all_gather", 4))
