"""Trees that pass near links first."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from ringtree import price
from ringtree.algorithms.trees import binary_tree, binomial, double_tree, locality_tree
from ringtree.machines.catalogue import machine
from ringtree.machines.clusters import Cluster
from ringtree.search import arrange, distances, rings
from ringtree.search.routes import Where, topology_of
from ringtree.simulate import play
from ringtree.topology.fabrics import FABRICS
from ringtree.transform import relabel
from ringtree.verify import prove

V100 = machine("dgx-1-v100")
TWO = Cluster(V100, 2, FABRICS["infiniband"])
KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize("where", [V100, V100.part((0, 1, 2, 4, 5, 6)), TWO])
@pytest.mark.parametrize("nbytes", [4 * KIB, 64 * MIB])
def test_arranged_trees_are_faster_where_the_machine_is_uneven(where: Where, nbytes: int) -> None:
    topology = topology_of(where)
    for schedule in (double_tree.all_reduce(topology.ranks), binomial.broadcast(topology.ranks, 1)):
        arranged = relabel(schedule, arrange(schedule, where, nbytes))
        assert arranged.root == schedule.root
        assert price.seconds(arranged, topology, nbytes) < 0.85 * price.seconds(schedule, topology, nbytes)
        assert play(arranged, topology, nbytes).time_s < play(schedule, topology, nbytes).time_s


@pytest.mark.parametrize("where", [machine("dgx-h100"), machine("dgx-a100"), machine("azure-nc96")])
def test_an_arranged_tree_is_never_slower(where: Where) -> None:
    topology = topology_of(where)
    schedule = binary_tree.all_reduce(topology.ranks)
    arranged = relabel(schedule, arrange(schedule, where, MIB))
    assert price.seconds(arranged, topology, MIB) <= price.seconds(schedule, topology, MIB)
    assert prove(arranged)


def test_a_locality_tree_by_distances_enters_each_pair_once() -> None:
    pairs = machine("azure-nc96").part((0, 2, 3, 1))
    apart = distances(pairs, 64 * MIB)
    assert np.array_equal(apart, apart.T)
    assert apart[0, 3] == apart[1, 2] == apart[apart > 0].min()
    topology = topology_of(pairs)
    by_distance = locality_tree.broadcast(4, 0, distances=apart)
    plain = binomial.broadcast(4, 0)
    assert price.seconds(by_distance, topology, 64 * MIB) < price.seconds(plain, topology, 64 * MIB)


def test_a_schedule_of_other_ranks_is_refused() -> None:
    with pytest.raises(ValueError, match="has 4 ranks and dgx-1-v100 8; expected the same number"):
        arrange(binomial.broadcast(4, 0), V100, 8)


BROADCAST = binomial.broadcast(8, 0)
WORDS = [("4 MiB", "'4 MiB'"), ("x", "'x'"), (None, "None"), (True, "True"), ([8], "[8]")]
PRICED: dict[str, Callable[..., object]] = {
    "arrange": lambda nbytes: arrange(BROADCAST, V100, nbytes),
    "distances": lambda nbytes: distances(V100, nbytes),
    "price.seconds": lambda nbytes: price.seconds(BROADCAST, topology_of(V100), nbytes),
    "price.bound": lambda nbytes: price.bound("broadcast", topology_of(V100), nbytes),
    "price.Priced": lambda nbytes: price.Priced(BROADCAST, topology_of(V100)).seconds(nbytes),
    "simulate.play": lambda nbytes: play(BROADCAST, topology_of(V100), nbytes),
}


@pytest.mark.parametrize("called", PRICED)
def test_a_size_is_a_number_of_bytes_from_0_on(called: str) -> None:
    """A size in words is one of the command line alone."""
    asked = PRICED[called]
    for given, shown in WORDS:
        if called == "simulate.play" and given is None:
            continue  # it has a line of its own for none
        with pytest.raises(TypeError, match=re.escape(f"nbytes is {shown}; expected a number of bytes")):
            asked(given)
    for below in (-1, -0.5, float("nan"), float("inf"), np.int64(-8)):
        with pytest.raises(ValueError, match=f"{below} bytes; expected at least 0"):
            asked(below)
    for good in (8, 8.0, np.int64(8), np.float32(8)):
        asked(good)


@pytest.mark.parametrize(("most", "shown"), [*WORDS, (2.5, "2.5")])
def test_the_most_rings_are_a_whole_number(most: object, shown: str) -> None:
    with pytest.raises(TypeError, match=re.escape(f"most is {shown}; expected a whole number of rings")):
        rings(V100, most)  # type: ignore[arg-type]
    assert rings(V100, np.int64(2)) == rings(V100, 2)  # type: ignore[arg-type]
