"""all_to_all nested in groups: few messages cross between them, and few wait in staging slots."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.algorithms import find
from ringtree.ir.lower import columns, lower
from ringtree.ir.schedule import Schedule
from ringtree.transform import in_place, nest, nest_in_hosts
from ringtree.transform.nest_all_to_all import AT_ONCE
from ringtree.verify import prove_programs

EXCHANGES = ("one_shot", "pairwise", "bruck")


@pytest.mark.parametrize(("ranks", "group"), [(8, 4), (12, 3), (8, 2)])
def test_a_rank_sends_one_message_to_each_other_group(ranks: int, group: int) -> None:
    rows = nest("all_to_all", find("pairwise"), find("pairwise"), ranks, group).expand()
    away = rows.take(rows.source // group != rows.target // group)
    assert set(np.bincount(away.source, minlength=ranks)) == {ranks // group - 1}
    assert set(away.count.tolist()) == {group} and np.all(away.source % group == away.target % group)


def test_ranks_of_a_larger_host_share_the_receivers_of_a_smaller_one() -> None:
    rows = nest_in_hosts("all_to_all", find("one_shot"), find("one_shot"), (0, 0, 0, 0, 1, 1)).expand()
    into = rows.take((rows.source < 4) & (rows.target >= 4))
    assert into.source.tolist() == [0, 1, 2, 3] and into.target.tolist() == [4, 5, 4, 5]
    back = rows.take((rows.source >= 4) & (rows.target < 4))
    assert back.source.tolist() == [4, 5] and back.target.tolist() == [0, 1] and set(back.count.tolist()) == {4}


@pytest.mark.parametrize("groups", [2, 4, 9, 16])
def test_slots_do_not_grow_with_the_groups(groups: int) -> None:
    nested = nest("all_to_all", find("pairwise"), find("pairwise"), 2 * groups, 2)
    assert prove_programs(lower(nested)).slots == min(groups, AT_ONCE)


@pytest.mark.parametrize("inner", EXCHANGES)
@pytest.mark.parametrize("outer", EXCHANGES)
def test_a_message_has_one_range_of_blocks_of_any_sizes(inner: str, outer: str) -> None:
    """Blocks of a row are for adjacent ranks, from one: lowering does not cut it where blocks are uneven."""
    nested = nest_in_hosts("all_to_all", find(inner), find(outer), (0, 0, 0, 1, 1, 2, 2, 2))
    assert len(columns(nested).rows) == len(nested.expand())


class InOneBuffer:
    """An all_to_all in place."""

    name, serves = "in one buffer", ("all_to_all",)

    def build(self, collective: str, ranks: int, root: int | None = None, /) -> Schedule:
        return in_place(find("pairwise").build(collective, ranks))


def test_an_exchange_in_one_buffer_is_refused() -> None:
    for inner, outer in ((InOneBuffer(), find("bruck")), (find("bruck"), InOneBuffer())):
        with pytest.raises(ValueError, match="pairwise exchanges in one buffer; expected one with an input and an"):
            nest("all_to_all", inner, outer, 4, 2)
