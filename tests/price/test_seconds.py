"""One question, asked everywhere: how long does a schedule take there?"""

from __future__ import annotations

import pytest

from ringtree import transform
from ringtree.algorithms import build
from ringtree.price import SharedMemory, Where, seconds
from ringtree.topology import direct

MIB = 1 << 20
TOPOLOGIES: dict[str, Where] = {
    "links": direct(8, latency_s=1e-6, bandwidth_Bps=10e9),
    "memory": SharedMemory(cores=8, slots=8, slot_bytes=64 * MIB),
    "memory, by turns": SharedMemory(cores=2, slots=8, slot_bytes=64 * MIB),
}
"""Slots hold all that is sent: windows of a slot would be a pipeline, too."""
everywhere = pytest.mark.parametrize("where", TOPOLOGIES.values(), ids=TOPOLOGIES)


@everywhere
@pytest.mark.parametrize(
    ("algorithm", "collective"), [("ring", "all_reduce"), ("flat", "gather"), ("bruck", "all_to_all")]
)
def test_more_bytes_take_longer(where: Where, algorithm: str, collective: str) -> None:
    took_s = [seconds(build(algorithm, collective, 8), where, nbytes) for nbytes in (0, 4096, MIB, 64 * MIB)]
    assert took_s[0] > 0 and took_s == sorted(set(took_s))


@everywhere
def test_few_rounds_win_where_short_and_few_bytes_where_long(where: Where) -> None:
    few_rounds, few_bytes = build("recursive_doubling", "all_reduce", 8), build("ring", "all_reduce", 8)
    assert seconds(few_rounds, where, 8) < seconds(few_bytes, where, 8)
    assert seconds(few_rounds, where, 64 * MIB) > seconds(few_bytes, where, 64 * MIB)


@everywhere
def test_a_long_chain_is_worth_cutting(where: Where) -> None:
    chain = build("chain", "broadcast", 8)
    assert seconds(transform.pipeline(chain, 32), where, 8 * MIB) < 0.8 * seconds(chain, where, 8 * MIB)


@everywhere
def test_bytes_below_nothing_are_refused(where: Where) -> None:
    with pytest.raises(ValueError, match="-1 bytes; expected at least 0"):
        seconds(build("ring", "all_reduce", 8), where, -1)


def test_nowhere_is_no_place() -> None:
    with pytest.raises(TypeError, match="int is not a machine model"):
        seconds(build("ring", "all_reduce", 8), 8, 8)  # type: ignore[arg-type]
