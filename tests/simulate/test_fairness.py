"""Rates are max-min fair, by either way of finding them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.simulate.fairness import few, many

INF = np.inf


def many_listed(crossed, most, bandwidth):
    pairs = [(flow, link) for flow, links in enumerate(crossed) for link in links]
    flow, link = np.array(pairs, np.intp).reshape(-1, 2).T
    return many(flow, link, np.array(most, float), np.array(bandwidth, float)).tolist()


@pytest.mark.parametrize("find", [few, many_listed])
@pytest.mark.parametrize(
    ("crossed", "most", "bandwidth", "rates"),
    [
        ([[0], [0]], [INF, INF], [10], [5, 5]),
        # Bertsekas and Gallager: one long flow over both links, one short flow on each
        ([[0, 1], [0], [1]], [INF] * 3, [10, 20], [5, 5, 15]),
        ([[0, 1], [0], [1]], [INF] * 3, [10, 4], [2, 8, 2]),
        ([[0], [0], [0]], [2, INF, INF], [10], [2, 4, 4]),
        ([[], [0]], [7, INF], [10], [7, 10]),
        ([[0, 1], [1, 2], [0, 2]], [INF] * 3, [6, 8, 100], [3, 5, 3]),
    ],
)
def test_by_hand(find, crossed, most, bandwidth, rates):
    assert find(crossed, most, bandwidth) == pytest.approx(rates)


flows = st.lists(
    st.tuples(st.sets(st.integers(0, 5), min_size=1, max_size=4), st.sampled_from([1.0, 3.0, 7.0, INF])),
    min_size=1,
    max_size=60,
)


@given(flows, st.lists(st.sampled_from([1.0, 2.0, 10.0, 33.0]), min_size=6, max_size=6))
def test_every_flow_has_its_limit_or_a_full_link_on_which_none_has_more(flows, bandwidth):
    """That is what max-min fair means (Bertsekas and Gallager, 6.5.2), and there is one solution only."""
    crossed, most = [sorted(links) for links, _ in flows], [limit for _, limit in flows]
    rates = few(crossed, most, bandwidth)
    assert rates == pytest.approx(many_listed(crossed, most, bandwidth))
    used = np.zeros(6)
    for links, rate in zip(crossed, rates, strict=True):
        used[links] += rate
    assert np.all(used <= np.array(bandwidth) * (1 + 1e-9))
    for links, limit, rate in zip(crossed, most, rates, strict=True):
        full = [k for k in links if used[k] >= bandwidth[k] * (1 - 1e-9)]
        highest = [max(r for other, r in zip(crossed, rates, strict=True) if k in other) for k in full]
        assert rate == pytest.approx(limit) or any(rate >= top * (1 - 1e-9) for top in highest)
