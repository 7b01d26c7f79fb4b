"""The shapes have the links they promise."""

import pytest

from ringtree.topology import cluster, direct, ring, switch, torus


def links(topology):
    return {(int(a), int(b)) for a, b in zip(topology.source, topology.target, strict=True)}


def test_direct():
    assert links(direct(3)) == {(a, b) for a in range(3) for b in range(3) if a != b}
    assert direct(1).links == 0
    with pytest.raises(ValueError, match="at most 5000 ranks"):
        direct(10**6)


def test_the_latency_of_a_switch_is_from_rank_to_rank():
    t = switch(4, latency_s=8.0)
    assert [t.link_name(link) for link in t.route(1, 2)] == ["rank1 -> switch", "switch -> rank2"]
    assert t.latency_s[list(t.route(1, 2))].sum() == 8.0


def test_ring_and_torus():
    assert links(ring(4)) == {(a, b) for a in range(4) for b in ((a + 1) % 4, (a - 1) % 4)}
    assert links(ring(2)) == {(0, 1), (1, 0)}
    assert links(torus(2, 3)) == {
        (a, b) for a in range(6) for b in range(6) if (a % 3 == b % 3) != (a // 3 == b // 3)
    }  # in dimensions of 2 and 3 all are neighbours
    assert len(torus(4, 4).route(0, 10)) == 4


def test_dimensions_are_whole_numbers():
    with pytest.raises(TypeError, match=r"torus: \[2, 3\]; expected whole numbers, such as 4, 4"):
        torus([2, 3])


def test_a_cluster_shares_its_nics():
    t = cluster(2, 4, nics=2, latency_s=5e-6, local_latency_s=1e-6)
    assert t.hosts.tolist() == [0] * 4 + [1] * 4
    names = [[t.link_name(link) for link in t.route(*ends)] for ends in ((0, 3), (1, 5), (3, 7))]
    assert names == [
        ["rank0 -> switch0", "switch0 -> rank3"],
        ["rank1 -> nic0.0", "nic0.0 -> network", "network -> nic1.0", "nic1.0 -> rank5"],
        ["rank3 -> nic0.1", "nic0.1 -> network", "network -> nic1.1", "nic1.1 -> rank7"],
    ]
    assert t.latency_s[list(t.route(0, 3))].sum() == pytest.approx(1e-6)
    assert t.latency_s[list(t.route(1, 5))].sum() == pytest.approx(6e-6)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (torus, "no dimensions"),
        (lambda: torus(3, 0), "torus 3x0: a dimension of 0"),
        (lambda: ring(0), "expected at least 1"),
        (lambda: switch(0), "0 ranks"),
        (lambda: cluster(0, 4), "hosts is 0"),
        (lambda: cluster(2, 2, nics=3), "3 nics for 2 ranks"),
        (lambda: switch(2, speed=1), "has no 'speed'"),
    ],
)
def test_impossible_shapes_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
