"""A machine as one of several groups of its GPUs has it: its own NICs, or a share of the rate of common ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringtree.machines.clusters import Cluster
from ringtree.machines.files.reading import find
from ringtree.machines.nics import as_shown, with_nics
from ringtree.machines.sharing import as_shared, groups_a_nic, likeness
from ringtree.nccl.tuning.settings import settings
from ringtree.topology.fabrics import FABRICS

Groups = tuple[tuple[int, ...], ...]
EACH: Groups = tuple((gpu,) for gpu in range(8))
HALVES: Groups = ((0, 1, 2, 3), (4, 5, 6, 7))
CROSSED: Groups = ((0, 4), (1, 5), (2, 6), (3, 7))
SHARED: list[tuple[str, tuple[int, ...], Groups, list[tuple[str, float]], int]] = [
    ("dgx-h100", (5,), EACH, [("nic5", 50e9)], 1),
    ("dgx-h100", (1, 5), CROSSED, [("nic1", 50e9), ("nic5", 50e9)], 1),
    ("dgx-h100", (5,), ((5,),), [(f"nic{n}", 50e9) for n in range(8)], 1),
    ("aws-p4d", (5,), EACH, [("nic2", 6.25e9)], 2),
    ("aws-p4d", (4, 5, 6, 7), HALVES, [("nic2", 12.5e9), ("nic3", 12.5e9)], 1),
    ("aws-p4d", (1, 5), CROSSED, [("nic0", 6.25e9), ("nic2", 6.25e9)], 2),
    ("aws-p3dn", (5,), EACH, [("nic0", 12.5e9 / 8)], 8),
]
"""A machine, one group of several at once, its NICs with their rates in bytes a second, and the groups on one NIC."""


@pytest.mark.parametrize(("name", "group", "groups", "nics", "sharers"), SHARED)
def test_a_groups_nics(
    name: str, group: tuple[int, ...], groups: Groups, nics: list[tuple[str, float]], sharers: int
) -> None:
    machine = find(name)
    one = as_shared(machine, group, groups)
    assert [one.devices[gpu].name for gpu in one.gpus] == [machine.devices[machine.gpus[gpu]].name for gpu in group]
    assert [(one.devices[n].name, one.devices[n].rate_Bps) for n in one.nics] == nics
    assert groups_a_nic(machine, group, groups) == sharers


def test_a_gpu_without_a_nic_is_refused() -> None:
    machine = find("dgx-h100")
    without = replace(machine, links=tuple(k for k in machine.links if not {k.source, k.target} & {*machine.nics}))
    with pytest.raises(ValueError, match="dgx-h100: a GPU reaches no NIC; expected a path to one"):
        as_shared(without, (5,), EACH)


@pytest.mark.parametrize(("name", "a", "b", "alike"), [
    ("dgx-h100", (0,), (5,), True),
    ("dgx-h100", (0, 1), (0, 2), True),
    ("dgx-h100", (0, 1), (0, 4), False),  # another CPU's
    ("dgx-h100", (0,), (0, 1), False),
    ("aws-p4d", (0, 1), (2, 3), True),
    ("aws-p4d", (0, 1), (1, 2), False),  # one NIC, or two
    ("v100-pcie", (0,), (1,), True),
])  # fmt: skip
def test_likeness(name: str, a: tuple[int, ...], b: tuple[int, ...], alike: bool) -> None:
    machine = find(name)
    groups = tuple((gpu,) for gpu in range(len(machine.gpus)))
    parts = [as_shared(machine, group, (*groups, group)) for group in (a, b)]
    assert (likeness(parts[0]) == likeness(parts[1])) is alike


def test_a_share_of_a_nic_keeps_the_settings_of_the_whole_one() -> None:
    """EFA's plugin reports the latency of p5en by the rate of a NIC; four of them serve eight GPUs."""
    machine = with_nics(find("aws-p5en"), 4, 25e9)
    one = as_shared(machine, (0,), EACH)
    assert {one.devices[n].rate_Bps for n in one.nics} == {12.5e9}
    found = [settings(as_shown(Cluster(each, 2, FABRICS["efa"])), 90) for each in (machine, one)]
    assert found[0] == found[1] and found[0].latency_us == 35
