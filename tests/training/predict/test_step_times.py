"""A step's times are those that `ringtree plan` predicts for the same groups, times the number of calls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringtree.machines.clusters import Cluster
from ringtree.machines.files.reading import find
from ringtree.machines.nics import usual_fabric
from ringtree.nccl.cluster_plan import ClusterPlan
from ringtree.topology.fabrics import FABRICS
from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from ringtree.training.predict.step_times import AT_THEIR_OWN_PACE, StepPricing, StepTimes

WIDE = Shape(width=1024, layers=8, heads=16, context=512)


def _cluster(name: str, ranks: int) -> Cluster:
    machine = find(name)
    fabric = usual_fabric(machine)
    return Cluster(machine, max(ranks // len(machine.gpus), 1), FABRICS[fabric] if fabric else None)


def _times(layout: ParallelLayout, name: str = "dgx-h100", shape: Shape = WIDE, batch: int = 64) -> StepTimes:
    plan = TrainingPlan(layout, shape, TrainingSettings(batch=batch))
    return StepPricing(plan, _cluster(name, layout.ranks)).times


Group = tuple[str, int, tuple[int, ...]]
"""A collective as `ringtree plan` names it, the number of nodes and the GPUs used in each."""
EQUAL: list[tuple[ParallelLayout, str, dict[str, Group]]] = [
    (
        ParallelLayout(dp=4, tp=8),
        "dgx-h100",
        {"tp": ("all_reduce", 1, tuple(range(8))), "data": ("all_reduce", 4, (0,))},
    ),
    (
        ParallelLayout(dp=8, tp=2, zero=3),
        "dgx-h100",
        {"tp": ("all_reduce", 1, (0, 1)), "data": ("", 2, (0, 2, 4, 6))},
    ),
    (
        ParallelLayout(pp=2, tp=8, micro_batches=2),
        "dgx-a100",
        {"tp": ("all_reduce", 1, tuple(range(8))), "pp": ("send_recv", 2, (0,))},
    ),
    (ParallelLayout(pp=2, tp=4, micro_batches=2), "dgx-h100", {"pp": ("send_recv", 1, (0, 4))}),
    (ParallelLayout(cp=16), "dgx-h100", {"cp": ("send_recv", 2, tuple(range(8)))}),
    (ParallelLayout(cp=16, context="ulysses"), "dgx-h100", {"cp": ("all_to_all", 2, tuple(range(8)))}),
]


@pytest.mark.parametrize(("layout", "name", "groups"), EQUAL)
def test_times_are_those_of_plan(layout: ParallelLayout, name: str, groups: dict[str, Group]) -> None:
    found, cluster, seen = _times(layout, name), _cluster(name, layout.ranks), set()
    for priced in found.priced:
        if priced.calls.axis not in groups:
            continue
        collective, nodes, gpus = groups[priced.calls.axis]
        plan = ClusterPlan(replace(cluster, machine=cluster.machine.part(gpus), nodes=nodes))
        row = plan.row(collective or priced.calls.collective, priced.calls.nbytes)
        around, time = plan.interval(row, row.pick), priced.time
        assert time is not None and around is not None
        assert (time.time_s, time.low_s, time.high_s) == pytest.approx((row.pick.time_s, around.low_s, around.high_s))
        assert (time.algorithm, time.protocol) == (row.pick.algorithm, row.pick.protocol)
        seen.add(priced.calls.axis)
    assert seen == set(groups)


def test_the_sum_is_of_all_calls() -> None:
    found = _times(ParallelLayout(dp=4, tp=8))
    # 4 a layer and 2 at the ends; 3 of the loss; with tensor parallelism gradients go at once
    assert [p.calls.times for p in found.priced] == [34, 3, 1]
    assert found.seconds() == pytest.approx(sum(p.calls.times * p.time.time_s for p in found.priced if p.time))
    assert 0 < found.seconds("low_s") < found.seconds() < found.seconds("high_s")


def test_groups_that_share_a_nic_take_longer() -> None:
    """Of p4d, whose two GPUs share a NIC; `plan --gpus 1` has the NIC to itself."""
    found = _times(ParallelLayout(dp=4, tp=8), "aws-p4d")
    (gradients,) = (p for p in found.priced if p.calls.axis == "data")
    cluster = _cluster("aws-p4d", 32)
    alone = ClusterPlan(replace(cluster, machine=cluster.machine.part((0,)))).row("all_reduce", gradients.calls.nbytes)
    assert gradients.time is not None and gradients.time.time_s > 1.5 * alone.pick.time_s


def test_the_busiest_stage_is_shown() -> None:
    """The first of four has the embedding; those in the middle twice as many messages, which take longer."""
    assert _times(ParallelLayout(pp=4, tp=8, micro_batches=4)).position == 1


def test_an_uneven_exchange_is_priced_as_an_even_one() -> None:
    found = _times(ParallelLayout(ep=8), shape=Shape(width=1024, layers=2, experts=8, context=64))
    (tokens,) = (p for p in found.priced if p.calls.what == "tokens to experts and back")
    even = ClusterPlan(_cluster("dgx-h100", 8)).row("all_to_all", tokens.calls.nbytes * 8 // 7)
    assert tokens.time is not None and tokens.time.time_s == pytest.approx(even.pick.time_s, rel=1e-6)


def test_each_group_is_priced_once() -> None:
    """512 ranks have 64 groups of tp and 32 of data, which are two kinds; pairs of pp are a third."""
    plan = TrainingPlan(ParallelLayout(dp=16, tp=8, pp=4, micro_batches=4), WIDE, TrainingSettings(batch=512))
    pricing = StepPricing(plan, _cluster("dgx-h100", 512))
    assert all(p.time for p in pricing.times.priced)
    assert len(pricing.places.searched) == 3


@pytest.mark.parametrize(
    ("layout", "name", "why"),
    [
        (ParallelLayout(dp=8, tp=3), "dgx-h100", "a group's ranks are"),
        (ParallelLayout(dp=2, staleness=1), "dgx-h100", AT_THEIR_OWN_PACE),
    ],
)
def test_a_group_without_a_price(layout: ParallelLayout, name: str, why: str) -> None:
    found = _times(layout, name, Shape(width=96, heads=3))
    assert found.priced and all(p.time is None and p.why.startswith(why) for p in found.priced)
    assert found.seconds() == 0


def test_stages_without_a_price_are_named() -> None:
    found = _times(ParallelLayout(pp=16, micro_batches=16), "aws-p3dn", Shape(layers=16))  # one NIC, at GPUs 4 to 7
    assert found.why == "" and [position for position, _ in found.elsewhere] == [7, 8]


def test_a_pair_on_gpus_that_are_alike_is_priced_as_on_the_same() -> None:
    """A cut of a pipeline within machines of eight GPUs, and one between them: GPU 7 and GPU 0, a NIC each."""
    found = _times(ParallelLayout(pp=16, micro_batches=16), shape=Shape(layers=16, width=1024, heads=16))
    assert not found.why and not found.elsewhere
    between = [p for p in found.priced if p.where and p.where.differs]
    cluster = _cluster("dgx-h100", 16)
    row = ClusterPlan(replace(cluster, machine=cluster.machine.part((0,)))).row("send_recv", between[0].calls.nbytes)
    assert between[0].time and between[0].time.time_s == pytest.approx(row.pick.time_s)
