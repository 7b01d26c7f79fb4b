"""The messages that wait in queues: those between hosts, and whatever shares a link with one that waits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ringtree.topology import Topology, on_hosts
from ringtree.topology.queues import in_queues

ONE_LINK = Topology.of(  # each rank reaches its host's switch, and the network behind that, by one link
    "one link a rank",
    5,
    ("r0", "r1", "r2", "r3", "r4", "s0", "s1", "network"),
    [0, 1, 2, 3, 4, 5, 5, 5, 6, 6, 5, 6, 7, 7],
    [5, 5, 5, 6, 6, 0, 1, 2, 3, 4, 7, 7, 5, 6],
    0,
    1,
    [0, 0, 0, 1, 1],
)


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([(0, 3)], [True]),
        ([(0, 1)], [False]),
        ([(0, 3), (0, 1)], [True, True]),
        ([(0, 3), (1, 2)], [True, False]),
        ([(0, 3), (1, 0), (0, 2), (1, 2)], [True, True, True, True]),
        ([(1, 2), (1, 0), (0, 2), (0, 3)], [True, True, True, True]),
        ([(4, 3), (0, 3)], [True, True]),
        ([(3, 4), (0, 3)], [False, True]),
    ],
)
def test_messages_of_a_host_wait_where_they_share_a_link_with_others_that_wait(
    pairs: list[tuple[int, int]], expected: list[bool]
) -> None:
    source, target = np.array(pairs, np.int64).T
    routes = ONE_LINK.routes(source, target)
    assert routes is not None
    fifo = replace(ONE_LINK, fifo_between_hosts=True)
    assert in_queues(fifo, source, target, *routes).tolist() == expected
    assert not in_queues(ONE_LINK, source, target, *routes).any()


def test_shapes_have_links_of_their_own_inside_hosts() -> None:
    topology = on_hosts((0, 0, 1), fifo_between_hosts=True)
    source, target = np.array([[0, 1], [0, 2], [1, 2]], np.int64).T
    routes = topology.routes(source, target)
    assert routes is not None
    assert in_queues(topology, source, target, *routes).tolist() == [False, True, True]
