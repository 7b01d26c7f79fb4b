"""A rack is one machine of several hosts; every other machine of the catalogue is one."""

from __future__ import annotations

import pytest

from ringtree.machines.catalogue import NAMES, machine
from ringtree.machines.hosts import hosts

RACKS = {"gb200-nvl72": (18, 4), "dgx-h100-superpod": (32, 8)}


@pytest.mark.parametrize("name", NAMES)
def test_hosts_are_what_nvswitches_alone_join(name: str) -> None:
    found = machine(name)
    of = hosts(found)
    count, gpus = RACKS.get(name, (1, len(found.gpus)))
    assert sorted(set(of)) == list(range(count))
    assert [of[g] for g in found.gpus] == [n // gpus for n in range(len(found.gpus))]
