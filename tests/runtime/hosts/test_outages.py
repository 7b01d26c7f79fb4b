"""Links that fail for a while, and come back: for less than the 3 s after which a silent host counts as lost."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.hosts.conftest import Ranks, made_lab, survivors
from tests.runtime.hosts.lab import Lab
from tests.runtime.hosts.test_faults import LAYOUT, under_way


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Hosts that no other test's ranks are on: their links are cut."""
    yield from made_lab()


TCP_RTO_MAX_MS = 44


def tries_again_soon() -> bool:
    """Whether the kernel's tries can be a second apart, as from Linux 6.15 on."""
    with socket.socket() as probe:
        try:
            probe.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS, 1000)
        except OSError:
            return False
    return True


@pytest.mark.skipif(not tries_again_soon(), reason="this kernel doubles the time between its tries without a limit")
@pytest.mark.parametrize("elements", [1, 100_000])
def test_a_short_outage_ends_nothing(ranks: Ranks, lab: Lab, tmp_path: Path, elements: int) -> None:
    """The kernel sends again within a second."""

    def rank(comm: Communicator) -> list[str]:
        go_on = np.ones(elements, np.float32)
        for number in range(1_000_000):
            if number == 3:
                (tmp_path / f"{comm.rank}").touch()
            go_on[:] = not (tmp_path / "enough").exists()
            if not comm.all_reduce(go_on, "min").any():
                break
        return ["none", "", ""]

    crew = ranks(LAYOUT, rank, wires=["tcp"])
    under_way(crew, tmp_path)
    lab.outage(2, 1.9)
    (tmp_path / "enough").touch()
    assert survivors(crew.finish()) == {rank: ["none", "", ""] for rank in range(4)}
