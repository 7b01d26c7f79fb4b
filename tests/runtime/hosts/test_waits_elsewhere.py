"""Chains of waits that go on on other hosts."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ringtree.errors import TimedOut
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.hosts.conftest import HostPools, Layout

X = np.ones(8)


def in_a_chain(comm: Communicator) -> str:
    """0 waits for 2, 2 for 3, 3 for 1, and 1 for nobody."""
    comm.barrier()
    if comm.rank == 2:
        comm.recv(X.copy(), 3)
    if comm.rank == 3:
        comm.recv(X.copy(), 1)
        comm.send(X, 2)
    if comm.rank == 1:
        comm.recv(X.copy(), 0, tag=9)  # which 0 sends when it has given up: until then the last link of the chain
        comm.send(X, 3)
    text = ""
    if comm.rank == 0:
        comm.set_timeout(2.0)
        with pytest.raises(TimedOut) as raised:
            comm.recv(X.copy(), 2)
        text = str(raised.value)
        comm.set_timeout(60.0)
        comm.send(X, 1, tag=9)
    comm.barrier()
    return text


@pytest.mark.parametrize("layout", [(2, 2), (2, 1, 1)])
def test_a_chain_goes_on_on_other_hosts(host_pools: HostPools, wire: str, layout: Layout) -> None:
    text = host_pools(layout, wire).run(in_a_chain)[0]
    links = ((2, 3, 0), (3, 1, 0), (1, 0, 9))
    way = ", ".join(f"rank {a} waits for rank {b} in recv from rank {b}, tag {tag}" for a, b, tag in links)
    cause = f"; the first cause: they wait for each other ({way})"
    assert text == f"rank 0 waited 2 s for rank 2 in recv from rank 2, tag 0{cause}"


def before_one_that_computes(comm: Communicator) -> str:
    """0 waits for 1, which waits for 2; then 0 waits for 1 again, which is at something else."""
    comm.barrier()
    text = ""
    if comm.rank == 0:
        comm.set_timeout(1.0)
        with pytest.raises(TimedOut, match=r"rank 1 waits for rank 2 in recv"):
            comm.recv(X.copy(), 1)
        comm.send(X, 2, tag=9)
        comm.set_timeout(1.5)
        with pytest.raises(TimedOut) as raised:
            comm.recv(X.copy(), 1)
        text = str(raised.value)
        comm.set_timeout(60.0)
    elif comm.rank == 1:
        comm.recv(X.copy(), 2)
        time.sleep(3)
    else:
        comm.recv(X.copy(), 0, tag=9)
        comm.send(X, 1)
    comm.barrier()
    return text


def test_a_wait_that_has_ended_is_no_link(host_pools: HostPools, wire: str) -> None:
    text = host_pools((1, 2), wire).run(before_one_that_computes)[0]
    assert text == "rank 0 waited 1.5 s for rank 1 in recv from rank 1, tag 0"
