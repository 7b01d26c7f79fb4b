"""Ranks on several NUMA nodes, and on unlike cores: what crosses, counted by hand, and what it costs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import isclose

import numpy as np
import pytest

from ringtree import transform
from ringtree.algorithms import build, pairs
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.schedule import Block
from ringtree.plan import predict, workload
from ringtree.plan.steps import wanted
from ringtree.price import Hosts, seconds
from ringtree.price.memory import BUILT_IN, SharedMemory, Workload, counts, quote
from ringtree.price.memory.counting import CROSSED, FETCHED, KINDS
from ringtree.price.memory.fitting import MeasuredCall, fit

MIB = 1 << 20
TWO = 0, 0, 0, 0, 1, 1, 1, 1
MEMORY = SharedMemory(cores=8, slots=8, slot_bytes=1 << 17)
SOCKETS = replace(MEMORY, node_of=TWO)


def test_two_shot_crosses_with_every_second_message() -> None:
    """In each of its two steps a rank reads an eighth of the vector from each of four ranks of the other node."""
    known = counts(build("two_shot", "all_reduce", 8), TWO)
    assert (known.total[:, CROSSED] / known.chunks).tolist() == [1.0] * 8
    assert ((known.times @ known.links) / known.chunks).tolist() == [4.0] * 4, "into each node, out of each"
    assert known.crossings == known.synchronizations == 2


def test_nested_in_nodes_crosses_once_a_quarter() -> None:
    """Of its quarter a rank gives half to the one rank of the other node that has it too, and reads the other half."""
    schedule = build("hierarchical", "all_reduce", 8, group=4, inner="two_shot", outer="two_shot")
    known = counts(schedule, TWO)
    assert (known.total[:, CROSSED] / known.chunks).tolist() == [0.25] * 8
    assert ((known.times @ known.links) / known.chunks).tolist() == [1.0] * 4
    assert (known.crossings, known.synchronizations) == (2, 4)


def test_a_root_gives_its_node_s_bytes() -> None:
    known = counts(build("flat", "broadcast", 4), (0, 1, 1, 1))
    assert known.total[:, CROSSED].tolist() == [0, 1, 1, 1]
    assert (known.times @ known.links).tolist() == [0, 3, 3, 0], "into 0, into 1, out of 0, out of 1"


@pytest.mark.parametrize(("algorithm", "collective"), pairs())
def test_the_other_counts_do_not_know_nodes(algorithm: str, collective: str) -> None:
    for ranks in (5, 8):
        node_of = tuple(rank % 2 for rank in range(ranks))
        for s in (schedule := build(algorithm, collective, ranks), transform.pipeline(schedule, 3)):
            plain, known = counts(s), counts(s, node_of)
            assert np.array_equal(known.work[:, :, : len(KINDS)], plain.work) and plain.work.shape[2] == len(KINDS)
            assert (known.work[:, :, CROSSED] <= known.work[:, :, FETCHED]).all()
            written_out = counts(replace(s, blocks=(Block(s.expand()),)), node_of)
            assert np.array_equal(known.total, written_out.total)
            assert np.array_equal(known.times @ known.links, written_out.times @ written_out.links)


@pytest.mark.parametrize(("algorithm", "collective"), pairs())
def test_one_node_costs_as_much_as_no_nodes(algorithm: str, collective: str) -> None:
    """To the last bit, with a core for each rank and without."""
    root = 0 if COLLECTIVES[collective].rooted else None
    for ranks, cores, nbytes in product((2, 8), (2, 8), (8, 1 << 16, 1 << 24)):
        plain = SharedMemory(cores, 8, 1 << 17)
        steps = wanted(algorithm, collective, ranks, root, nbytes, plain)
        one = predict(algorithm, collective, ranks, root, nbytes, steps, replace(plain, node_of=(3,) * ranks))
        assert one == predict(algorithm, collective, ranks, root, nbytes, steps, plain)
        if ranks == 8 and collective != "barrier" and nbytes > 8:
            two = predict(algorithm, collective, ranks, root, nbytes, steps, replace(plain, node_of=TWO))
            assert two.seconds > one.seconds


def test_bytes_that_cross_take_longer_and_their_messages_too() -> None:
    schedule, nbytes = build("two_shot", "all_reduce", 8), 1 << 16
    far = replace(BUILT_IN, across_s=1e-6, across_Bps=1e9, link_Bps=1e12)
    plain, crossing = (
        quote(Workload(counts(schedule, m.node_of)), m, nbytes) for m in (MEMORY, replace(SOCKETS, parameters=far))
    )
    assert isclose(crossing.latency_s - plain.latency_s, 2e-6)
    assert isclose(crossing.fetch_s - plain.fetch_s, nbytes / 1e9), "a whole vector, as counted above"
    assert crossing.copy_s == plain.copy_s and crossing.reduce_s == plain.reduce_s


def test_all_bytes_of_a_node_share_its_link() -> None:
    """Four vectors into each node, at once out of each."""
    narrow = replace(BUILT_IN, link_Bps=1e9)
    at = replace(SOCKETS, parameters=narrow)
    assert isclose(seconds(build("two_shot", "all_reduce", 8), at, MIB), 4 * MIB / 1e9, rel_tol=0.05)
    nested = build("hierarchical", "all_reduce", 8, group=4, inner="two_shot", outer="two_shot")
    assert MIB / 1e9 < seconds(nested, at, MIB) < 1.2 * MIB / 1e9


def test_a_slow_core_slows_all_but_the_wires() -> None:
    schedule = build("two_shot", "all_reduce", 8)
    for cores in (8, 2):
        at = replace(SOCKETS, cores=cores, parameters=replace(BUILT_IN, link_Bps=1e12))
        plain, slow = (quote(Workload(counts(schedule, TWO)), m, MIB) for m in (at, replace(at, speed=0.5)))
        assert isclose(slow.call_s, 2 * plain.call_s) and isclose(slow.copy_s, 2 * plain.copy_s)
        assert plain.latency_s < slow.latency_s <= 2 * plain.latency_s
        assert plain.seconds < slow.seconds <= 2 * plain.seconds
    narrow = replace(SOCKETS, parameters=replace(BUILT_IN, link_Bps=1e8))
    assert isclose(seconds(schedule, narrow, MIB), seconds(schedule, replace(narrow, speed=0.5), MIB), rel_tol=0.01)


def test_a_slow_core_slows_ranks_over_hosts() -> None:
    fast = Hosts((0, 0, 1, 1), MEMORY, 30e-6, 1e9)
    ring = build("ring", "all_reduce", 4)
    slow = replace(fast, memory=replace(MEMORY, speed=0.25))
    assert seconds(ring, fast, MIB) < seconds(ring, slow, MIB) < 4 * seconds(ring, fast, MIB)


def test_nodes_of_other_ranks_are_refused() -> None:
    with pytest.raises(ValueError, match="nodes of 8 ranks; expected those of 4"):
        counts(build("ring", "all_reduce", 4), TWO)


@pytest.mark.parametrize("name", ["across_s", "across_Bps", "link_Bps"])
def test_costs_that_no_machine_has_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is -1; expected"):
        replace(BUILT_IN, **{name: -1})


TRUE = replace(BUILT_IN, across_s=0.5e-6, across_Bps=8e9, link_Bps=12e9, source="made up")


def made(node_of: tuple[int, ...], ranks: int) -> list[MeasuredCall]:
    found = []
    for collective, algorithm in (("all_reduce", "one_shot"), ("all_reduce", "two_shot"), ("broadcast", "flat")):
        for nbytes in (1 << k for k in range(3, 27, 2)):
            memory, root = replace(MEMORY, node_of=node_of), 0 if collective == "broadcast" else None
            what = algorithm, collective, ranks, root
            work = workload(*what, wanted(*what, nbytes, memory), node_of)
            took_s = quote(work, replace(memory, parameters=TRUE), nbytes).seconds
            found.append(MeasuredCall(work, memory, nbytes, took_s))
    return found


def test_what_crosses_is_found_again_where_it_was_measured() -> None:
    """One rank on each node reads at a core's rate, four at the link's."""
    found = fit(made((), 8) + made((0, 1), 2) + made(TWO, 8))
    for name in ("across_s", "across_Bps", "link_Bps"):
        assert isclose(getattr(found, name), getattr(TRUE, name), rel_tol=0.1), name


def test_what_crosses_stays_built_in_where_nothing_did() -> None:
    found = fit(made((), 8))
    for name in ("across_s", "across_Bps", "link_Bps"):
        assert isclose(getattr(found, name), getattr(BUILT_IN, name), rel_tol=1e-12)
