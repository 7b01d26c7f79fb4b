"""Candidates: each algorithm in the order that suits the links; proved, and priced as `price.seconds` prices them."""

from __future__ import annotations

import pytest

from ringtree import price
from ringtree.ir.collective import COLLECTIVES
from ringtree.machines.catalogue import machine
from ringtree.machines.clusters import Cluster
from ringtree.price import Bounds
from ringtree.search import candidates
from ringtree.search.candidates import MOST_RANKS
from ringtree.search.routes import Where, topology_of
from ringtree.simulate import play
from ringtree.topology import parse
from ringtree.topology.fabrics import FABRICS
from ringtree.verify import prove

V100 = machine("dgx-1-v100")
TORUS = parse("torus:dims=2x3", 6)
MIB = 1 << 20


@pytest.mark.parametrize("where", [V100.part((0, 1, 2, 4, 5, 6)), TORUS], ids=["part", "torus"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_candidate_is_proved_and_priced(collective: str, where: Where) -> None:
    nbytes, root = MIB * (collective != "barrier"), 4 if COLLECTIVES[collective].rooted else None
    topology = topology_of(where)
    found = candidates(collective, where, nbytes, root)
    assert [c.seconds for c in found] == sorted(c.seconds for c in found)
    least_s = Bounds(topology).bound(collective, nbytes, root or 0).time_s
    for each in found:
        prove(each.schedule)
        assert each.schedule.root == root and each.schedule.collective == collective
        assert each.seconds == price.seconds(each.schedule, topology, nbytes) >= least_s * (1 - 1e-9)
        assert all(sorted(order) == list(range(6)) for order in each.orders)
        assert root is None or all(order[root] == root for order in each.orders)
    for name in {c.algorithm for c in found}:
        its = [c for c in found if c.algorithm == name]
        assert min(c.seconds for c in its) <= its[0].in_order_s


@pytest.mark.parametrize(
    "where, collective, nbytes, algorithm, orders, gain",
    [
        (V100, "all_reduce", 256 * MIB, "ring", 6, 5.9),  # every direction of every NVLink
        (machine("azure-nc96"), "all_gather", 64 * MIB, "hierarchical", 1, 1.0),
        (machine("dgx-h100"), "all_reduce", 256 * MIB, "two_shot", 1, 1.0),  # a switch: all orders are alike
        (parse("torus:dims=4x4", 16), "broadcast", MIB, "chain", 14, 1.8),
    ],
)
def test_the_quickest_is_known(
    where: Where, collective: str, nbytes: int, algorithm: str, orders: int, gain: float
) -> None:
    best = candidates(collective, where, nbytes)[0]
    assert (best.algorithm, len(best.orders), best.is_arranged) == (algorithm, orders, gain > 1)
    assert best.in_order_s / best.seconds >= gain
    assert play(best.schedule, topology_of(where), nbytes).time_s == pytest.approx(best.seconds, rel=0.35)


@pytest.mark.parametrize(
    "shape, ranks, nbytes, algorithm, group",
    [("cluster:hosts=2", 12, 16 * MIB, "split_tree", 6), ("cluster:hosts=4", 32, MIB, "hierarchical", 8)],
)
def test_groups_are_the_hosts(shape: str, ranks: int, nbytes: int, algorithm: str, group: int) -> None:
    where = parse(shape, ranks)
    found = candidates("all_reduce", where, nbytes, names=["ring", algorithm])
    best = found[0]
    assert (best.algorithm, dict(best.options)) == (algorithm, {"group": group})
    ring = next(c for c in found if c.algorithm == "ring")
    assert ring.options == () and play(best.schedule, where, nbytes).time_s < play(ring.schedule, where, nbytes).time_s


def test_long_vectors_are_cut_into_many_pieces() -> None:
    where = parse("switch", 32)
    best, *_ = candidates("broadcast", where, 1 << 30, names=["chain", "circulant_broadcast"])
    assert (best.algorithm, best.pieces) == ("chain", 1024)
    assert play(best.schedule, where, 1 << 30).time_s == pytest.approx(best.seconds) == pytest.approx(0.1107, rel=0.01)


def test_a_single_text_is_no_list_of_names() -> None:
    with pytest.raises(TypeError, match="names='ring': expected a list of names"):
        candidates("all_reduce", V100, MIB, names="ring")


def test_named_algorithms_alone_are_searched() -> None:
    two = Cluster(V100, 2, FABRICS["infiniband"])
    found = candidates("all_reduce", two, MIB, names=["ring", "double_tree"])
    assert {c.algorithm for c in found} == {"ring", "double_tree"}


def test_an_order_that_the_sum_depends_on_stays() -> None:
    assert not any(c.is_arranged for c in candidates("scan", V100, MIB))


@pytest.mark.parametrize(
    "collective, where, root, names, expected",
    [
        ("all_reduce", V100, 0, (), "root 0: expected none, for all_reduce has no root"),
        ("broadcast", V100, 8, (), "root 8: expected a rank, 0..7"),
        ("broadcast", V100, None, ("pairwise",), "pairwise does not serve broadcast"),
        ("all_reduce", parse("ring", 3), None, ("halving_doubling", "nothing"), "nothing"),
        ("all_reduce", parse("ring", MOST_RANKS + 1), None, (), f"expected at most {MOST_RANKS} to search"),
        ("everything", V100, None, (), "everything"),
        (
            "all_to_all",
            parse("ring", 256),
            None,
            ("bruck",),
            "over 256 ranks: bruck has 262,400 transfers",
        ),
    ],
)
def test_a_mistake_is_one_clear_line(
    collective: str, where: Where, root: int | None, names: tuple[str, ...], expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        candidates(collective, where, MIB, root, names)
