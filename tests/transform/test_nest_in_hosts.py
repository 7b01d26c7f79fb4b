"""Algorithms nested in hosts of any numbers of ranks, in any order: proved, and little crosses the network."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.algorithms import find
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.schedule import Schedule
from ringtree.transform import nest, nest_in_hosts
from ringtree.transform.phases import PHASES
from ringtree.verify import prove
from tests.transform.cases import Strange, keeps_its_promise
from tests.transform.test_nest import Cut

HOSTS = [(0, 0, 0, 1), (0, 1, 1, 1, 2, 2), (0, 1, 0, 1), (0, 0, 0, 0, 1, 2), (5, 2, 2, 5, 9, 2, 9, 9, 9, 2)]
INNER = ("ring", "two_shot", "halving_doubling", "chain", "binomial", "flat", "one_shot", "bruck", "pat", "pairwise")
OUTER = ("ring", "two_shot", "one_shot", "recursive_doubling", "double_tree", "halving_doubling", "circulant", "swing")
OUTER += ("binomial", "flat", "pairwise", "bruck")

PIECES = {
    "broadcast": ("chain", "double_tree"),
    "reduce": ("chain", "double_tree"),
    "gather": ("flat", "binomial"),
    "scatter": ("binomial", "flat"),
    "all_to_all": ("bruck", "bruck"),
}


@pytest.mark.parametrize("host_of", HOSTS, ids=str)
@pytest.mark.parametrize("collective", PHASES)
def test_all_pairs_are_proved(collective: str, host_of: tuple[int, ...]) -> None:
    proved = 0
    for inner in INNER:
        for outer in OUTER:
            for root in range(len(host_of)) if COLLECTIVES[collective].rooted else [None]:
                try:
                    nested = nest_in_hosts(collective, find(inner), find(outer), host_of, root)
                except ValueError as refusal:
                    assert "needs" in str(refusal)
                    continue
                assert (nested.ranks, nested.root, nested.collective) == (len(host_of), root, collective)
                prove(nested)
                proved += 1
    assert proved >= 9


@pytest.mark.parametrize("collective", PHASES)
def test_schedules_of_several_pieces_are_right(collective: str) -> None:
    names = PIECES.get(collective, ("ring", "halving_doubling"))
    inner, outer = (Cut(name, pieces) for name, pieces in zip(names, (2, 3), strict=True))
    root = 3 if COLLECTIVES[collective].rooted else None
    keeps_its_promise(nest_in_hosts(collective, inner, outer, (0, 0, 1, 1, 1, 2), root))


def test_equal_hosts_are_nested_in_the_order_of_their_ranks() -> None:
    ring, halving = find("ring"), find("halving_doubling")
    for collective in ("all_reduce", "all_gather", "reduce_scatter"):
        assert nest_in_hosts(collective, ring, halving, (0, 0, 1, 1)) == nest(collective, ring, halving, 4, 2)
    prove(nest_in_hosts("all_gather", ring, halving, (1, 0, 0, 1)))


def crossing(schedule: Schedule, host_of: tuple[int, ...]) -> float:
    """What enters all hosts, in whole vectors."""
    rows, host = schedule.expand(), np.array(host_of)
    return float(rows.count[host[rows.source] != host[rows.target]].sum()) / schedule.chunks


@pytest.mark.parametrize("host_of", HOSTS, ids=str)
def test_no_more_crosses_the_network_than_between_hosts_of_one_rank(host_of: tuple[int, ...]) -> None:
    """Of an all_gather each block once to each other host; of an all_reduce as much as the outer one's."""
    hosts, ring = len(set(host_of)), find("ring")
    for collective in ("all_gather", "reduce_scatter"):
        assert crossing(nest_in_hosts(collective, ring, ring, host_of), host_of) == pytest.approx(hosts - 1)
    nested = nest_in_hosts("all_reduce", ring, ring, host_of)
    assert crossing(nested, host_of) == pytest.approx(2 * (hosts - 1))
    for inner in ("chain", "flat"):
        assert crossing(nest_in_hosts("broadcast", find(inner), find("chain"), host_of, 1), host_of) == hosts - 1


def test_ranks_of_a_host_share_what_crosses() -> None:
    """Three ranks beside one: each of the three sends a third of the vector, in one message."""
    nested = nest_in_hosts("all_reduce", find("two_shot"), find("recursive_doubling"), (0, 0, 0, 1))
    rows = nested.expand()
    out = rows.take((rows.source < 3) & (rows.target == 3))
    assert out.source.tolist() == [0, 1, 2] and (out.count * 3 == nested.chunks).all()


def test_mistakes_are_refused() -> None:
    ring = find("ring")
    with pytest.raises(ValueError, match="expected the number of each rank's host"):
        nest_in_hosts("all_reduce", ring, ring, ())
    with pytest.raises(ValueError, match="scan is not nested"):
        nest_in_hosts("scan", ring, ring, (0, 0, 1))
    with pytest.raises(ValueError, match="carousel moves blocks by way of scratch"):
        nest_in_hosts("all_gather", ring, Strange(), (0, 0, 1))
