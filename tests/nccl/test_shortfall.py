"""The rules that keep data from links, in words, where a plan is far from the bound."""

from __future__ import annotations

import pytest

from ringtree.machines.channels import Channels, Pattern
from ringtree.machines.clusters import Cluster
from ringtree.machines.files.reading import find
from ringtree.nccl.cluster_plan import ClusterPlan
from ringtree.nccl.shortfall import reasons
from ringtree.topology.fabrics import FABRICS
from tests.nccl.combinations import OWN, Combination, machine


@pytest.mark.parametrize(
    ("name", "of", "reason"),
    [
        ("gh200x4", Combination(1, OWN, "slingshot", 2), "its channels use 1 of 4 NICs"),
        ("gh200x4", Combination(2, OWN, "slingshot", 1), "it leaves C2C idle"),
        ("rtx4090-pcie", Combination(1, (1, 200.0), "tcp", 2), "over tcp the kernel carries 5.25 GB/s for a rank"),
        ("h100-pcie-nvlink-pairs", Combination(4, OWN, "infiniband", 1), "is farther than PXB, NCCL_P2P_LEVEL"),
        ("aws-p3dn", Combination(2, (2, 100.0), "efa", 4), "cannot register a GPU's memory"),
        ("dgx-1-v100", Combination(3, OWN, "infiniband", 2), "take 20 of 50 GB/s of a GPU's links to others"),
        ("gcp-a3-high", Combination(8, (8, 400.0), "tcpx", 2), "a connection has no more than 4 MiB under way"),
    ],
)
def test_the_rule_that_keeps_data_from_a_link_is_named(name: str, of: Combination, reason: str) -> None:
    plan = ClusterPlan(Cluster(machine(name, of), of.nodes, FABRICS[of.fabric]))
    found = reasons(plan.cluster, plan.graphs, plan.row("all_reduce", 1 << 30).pick)
    assert any(reason in text for text in found)


@pytest.mark.parametrize(
    ("name", "collective", "of", "limit"),
    [
        ("azure-ndv4", "gather", Combination(8, OWN, "infiniband", 4), "PCIe: pci1 to gpu0"),
        ("azure-ndv2", "send_recv", Combination(8, OWN, "infiniband", 1), "NVLink: gpu4 to gpu5"),
        ("aws-p5e", "gather", Combination(8, OWN, "efa", 7), "NICs: 1 x 50 GB/s"),
        ("dgx-h100", "scatter", Combination(8, (9, 25.0), "infiniband", 2), "NICs: 2 x 3.125 GB/s"),
    ],
)
def test_sends_and_receives_are_far_from_the_bound_by_their_one_way(
    name: str, collective: str, of: Combination, limit: str
) -> None:
    plan = ClusterPlan(Cluster(machine(name, of), of.nodes, FABRICS[of.fabric]))
    (found,) = plan.shortfall(plan.row(collective, 1 << 30))
    assert found == f"data goes straight to its peer, no faster than {limit}; the bound takes all ways there"


@pytest.mark.parametrize(("nbytes", "first"), [(8, "latency is "), (1 << 33, "")])
def test_only_a_plan_far_from_the_bound_has_a_reason(nbytes: int, first: str) -> None:
    of = Combination(8, OWN, "infiniband", 2)
    plan = ClusterPlan(Cluster(machine("dgx-h100", of), of.nodes, FABRICS[of.fabric]))
    found = plan.shortfall(plan.row("all_reduce", nbytes))
    assert found[0].startswith(first) if first else found == ()


@pytest.mark.parametrize(
    ("name", "nodes", "nbytes"),
    [("dgx-h100", 2, 1 << 23), ("dgx-h100", 16, 1 << 24), ("aws-p5", 4, 1 << 23), ("dgx-b200", 4, 1 << 23)],
)
def test_no_rule_is_named_that_keeps_no_data_from_its_nic(name: str, nodes: int, nbytes: int) -> None:
    """In trees and NVLS the last GPU of a channel sends nothing to the network."""
    plan = ClusterPlan(Cluster(find(name), nodes, FABRICS["infiniband"]))
    found = reasons(plan.cluster, plan.graphs, plan.row("all_reduce", nbytes).pick)
    assert not any("GDR" in text or "no path" in text for text in found)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (Pattern.RING, ((3, 0), (2, 1))),
        (Pattern.TREE, ((3, 0), (3, 1))),
        (Pattern.BALANCED_TREE, ((3, 0), (3, 1), (1, 1))),
        (Pattern.SPLIT_TREE, ((3, 0), (1, 1))),
        (Pattern.NVLS, ((3, 0), (3, 1))),
    ],
)
def test_the_gpus_at_the_network_are_those_of_the_pattern(
    pattern: Pattern, expected: tuple[tuple[int, int], ...]
) -> None:
    """ncclTopoSearchParams of NCCL's graph/search.cc."""
    channels = Channels(pattern, ((3, 1, 0, 2),), ((0, 1),))
    assert channels.at_nics(0) == expected and Channels(pattern, ((3, 1, 0, 2),)).at_nics(0) == ()
