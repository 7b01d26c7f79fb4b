"""The hosts' clocks as the launcher reads them, by exchanges with the agents."""

from __future__ import annotations

import time

import pytest

from ringtree.runtime.launch.hosts.clocks import LAST, AgentClocks

AHEAD_S = {"a": 50.0, "b": 80.0, "c": -3.0}


def exchange(clocks: AgentClocks[str], host: str, took_s: float, late: float = 0.5) -> None:
    """An answer that comes now; `late`: the part of the way that the question took."""
    now_s = time.monotonic()
    clocks.note(host, now_s - took_s, now_s - took_s * (1 - late) + AHEAD_S[host])


@pytest.mark.parametrize("late", [0.0, 0.5, 1.0])
def test_offsets_are_those_beside_host_0(late: float) -> None:
    clocks = AgentClocks[str]()
    for host in AHEAD_S:
        exchange(clocks, host, 0.01, late if host == "b" else 0.5)
    readings = clocks.readings({"a": 0, "b": 1, "c": 2})
    assert [reading.host for reading in readings] == [1, 2]
    for reading, host in zip(readings, "bc", strict=True):
        assert abs(reading.offset_s - (AHEAD_S[host] - AHEAD_S["a"])) <= reading.error_s == pytest.approx(0.01, rel=0.3)


def test_the_shortest_of_the_last_exchanges_counts() -> None:
    clocks = AgentClocks[str]()
    for took_s in (0.001, 0.5, 0.02, 0.5, 0.5):  # the first was too long ago
        exchange(clocks, "a", took_s)
        exchange(clocks, "b", took_s)
    assert LAST == 4
    (reading,) = clocks.readings({"a": 0, "b": 1})
    assert reading.error_s == pytest.approx(0.02, rel=0.2)


def test_without_rank_0s_host_nothing_is_known() -> None:
    clocks = AgentClocks[str]()
    exchange(clocks, "b", 0.01)
    assert clocks.readings({"a": 0, "b": 1}) == []
