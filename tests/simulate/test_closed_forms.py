"""Where nothing is shared, the simulation gives the times of the literature's formulas.

α is the latency, β the seconds a byte, S the whole vector's bytes, n the ranks. Links of one latency and bandwidth
between all ranks, unless a test sets others.
"""

import pytest

from ringtree.algorithms import build
from ringtree.simulate import Job, play
from ringtree.simulate.play import play_events
from ringtree.topology import direct, ring, switch
from ringtree.transform import pipeline

ALPHA, BETA, S = 2e-6, 1 / 10e9, 1 << 20
RANKS = (2, 3, 4, 8, 13)


def near(schedule, topology):
    """The time by the event player, to be compared within 1 %; `play` may ask the other one, which test_levels holds
    to this one."""
    return pytest.approx(play_events([Job(schedule, S)], [None], topology).time_s, rel=0.01)


def links(shape, n, **costs):
    return shape(n, latency_s=ALPHA, bandwidth_Bps=1 / BETA, **costs)


@pytest.mark.parametrize("shape", [direct, ring, switch])
@pytest.mark.parametrize("n", RANKS)
@pytest.mark.parametrize(("collective", "times"), [("all_reduce", 2), ("reduce_scatter", 1), ("all_gather", 1)])
def test_ring(shape, n, collective, times):
    """n-1 steps, each passing on one of n blocks to the neighbour, twice for all_reduce (Patarasuk and Yuan 2009):
    2(n-1)(α + βS/n). All links it uses are used one way by one rank, so that a ring and a switch do as well."""
    assert times * (n - 1) * (ALPHA + S / n * BETA) == near(build("ring", collective, n), links(shape, n))


@pytest.mark.parametrize("n", RANKS)
def test_ring_with_the_ranks_own_work(n):
    """A step of the first half also reduces a block, one of the second writes it where it belongs and on to the next
    in one go, and every message costs its overhead o at both ends (Thakur and others 2005, with γ a byte reduced):
    copy + (n-1)(α + 2o + βS/n + γS/n) + (n-1)(α + 2o + βS/n + copy)."""
    o, step, copy, gamma, block = 3e-7, 1e-7, 1 / 40e9, 1 / 15e9, S / n
    costs = {"message_s": o, "step_s": step, "copy_Bps": 1 / copy, "reduce_Bps": 1 / gamma}
    hop, copied = ALPHA + 2 * o + block * BETA, step + block * copy
    expected = copied + (n - 1) * (hop + step + block * gamma) + (n - 1) * (hop + copied)
    assert expected == near(build("ring", "all_reduce", n), links(direct, n, **costs))


@pytest.mark.parametrize("m", [1, 4, 32])
@pytest.mark.parametrize("n", RANKS)
def test_chain_in_pieces(n, m):
    """The last of m pieces leaves the root after m piece times and makes n-1 hops, each a latency and all but the first
    a piece time: (n-1)α + (n-2+m)βS/m. Latency is under way, so it does not hold up the piece behind (Culler and
    others 1993: LogP)."""
    expected = (n - 1) * ALPHA + (n - 2 + m) * S / m * BETA
    assert expected == near(build("chain", "broadcast", n, pieces=m), links(direct, n))


@pytest.mark.parametrize("n", RANKS)
def test_chain_in_pieces_by_the_simpler_formula(n):
    """Hockney's model charges the latency to the sender: (n-2+m)(α + βS/m) (Pjesivac-Grbovic and others 2007). That is
    the same where a piece takes far longer than the latency."""
    m = 4
    slow = direct(n, latency_s=ALPHA, bandwidth_Bps=1e9)
    assert (n - 2 + m) * (ALPHA + S / m / 1e9) == near(build("chain", "broadcast", n, pieces=m), slow)


@pytest.mark.parametrize("n", RANKS)
def test_binomial_tree(n):
    """⌈lg n⌉ rounds of the whole vector, one message out of a rank at a time (Chan and others 2007): ⌈lg n⌉(α + βS)."""
    assert (n - 1).bit_length() * (ALPHA + S * BETA) == near(build("binomial", "broadcast", n), links(switch, n))


@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_recursive_doubling(n):
    """lg n exchanges of the whole vector (Thakur and others 2005): lg n (α + βS), for powers of two."""
    expected = (n - 1).bit_length() * (ALPHA + S * BETA)
    assert expected == near(build("recursive_doubling", "all_reduce", n), links(switch, n))


@pytest.mark.parametrize("m", [1, 8, 32])
@pytest.mark.parametrize("n", [4, 8, 16, 64])
def test_double_tree_in_pieces(n, m):
    """Each tree, of height h = lg n, carries half of the vector in m pieces, and no link is in both (Sanders, Speck and
    Träff 2009): h-1+m rounds of α + βS/2m. The latency counts in every round: a rank is inner in one tree and a leaf of
    the other, and goes on in the one when it has what the round brings in the other."""
    h = (n - 1).bit_length()
    expected = (h - 1 + m) * (ALPHA + S / (2 * m) * BETA)
    assert expected == near(pipeline(build("double_tree", "broadcast", n), m), links(direct, n))


def test_one_rank_and_no_bytes():
    """Nobody to send to takes no time; a message without bytes takes its latency."""
    assert play(build("ring", "all_reduce", 1), direct(1), S).time_s == 0
    assert play(build("dissemination", "barrier", 8), links(direct, 8), 0).time_s == pytest.approx(3 * ALPHA)


def test_a_route_takes_the_latency_of_all_its_links_and_the_bandwidth_of_the_least():
    """Over 3 links of a ring, cut through: 3α + βS."""
    expected = 3 * ALPHA + 3 * S * BETA  # the root's ports send 3 each way, the farthest first or last
    assert expected == near(build("flat", "broadcast", 7), links(ring, 7))
