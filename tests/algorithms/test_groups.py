"""Groups of ranks that are taken from the hosts."""

from __future__ import annotations

import pytest

from ringtree.algorithms import find
from ringtree.algorithms.groups import host_group


@pytest.mark.parametrize(
    ("algorithm", "host_of", "group"),
    [
        ("hierarchical", [0, 0, 0, 0, 1, 1, 1, 1], 4),
        ("split_tree", [0, 0, 1, 1, 2, 2], 2),
        ("hierarchical", [0, 1, 2, 3], 1),
        ("hierarchical", [0, 0, 0, 0], None),
        ("hierarchical", [0, 0, 0, 1], None),
        ("hierarchical", [0, 1, 0, 1], None),
        ("ring", [0, 0, 1, 1], None),
    ],
)
def test_a_group_is_a_host_where_hosts_are_even(algorithm: str, host_of: list[int], group: int | None) -> None:
    serves = find(algorithm).serves[0]
    assert host_group(algorithm, serves, host_of) == ({} if group is None else {"group": group})
