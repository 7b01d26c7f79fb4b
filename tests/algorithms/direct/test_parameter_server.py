"""The busiest rank sends n-1 vectors with one server, and as much as a ring's with n."""

from __future__ import annotations

import pytest

from ringtree.algorithms import build
from ringtree.algorithms.direct import parameter_server, sharded_server
from ringtree.algorithms.rings import ring
from ringtree.verify import prove


@pytest.mark.parametrize("n", [2, 5, 8, 64])
def test_beside_the_ring(n: int) -> None:
    busiest = [
        s.chunks_sent().max() / s.chunks
        for s in (parameter_server.all_reduce(n), sharded_server.all_reduce(n), ring.all_reduce(n))
    ]
    assert busiest == pytest.approx([n - 1, 2 * (n - 1) / n, 2 * (n - 1) / n])


@pytest.mark.parametrize("servers", [1, 2, 3, 5])
def test_any_number_of_servers(servers: int) -> None:
    schedule = build("parameter_server", "all_reduce", 5, servers=servers)
    prove(schedule)
    pull = schedule.blocks[1].rows
    assert set(pull.source.tolist()) == set(range(servers))
    assert schedule.chunks == servers


def test_too_many_servers_are_refused() -> None:
    with pytest.raises(ValueError, match="parameter_server: 6 servers among 5 ranks; expected 1 to 5"):
        build("parameter_server", "all_reduce", 5, servers=6)
