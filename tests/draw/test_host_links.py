"""Hosts in a trace's timeline: rows, clocks, the path over the network, and the table of links."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringtree.draw.text.comparison import comparison
from ringtree.draw.text.host_links import clock_lines, link_table
from ringtree.draw.text.path import path_lines
from ringtree.draw.text.timeline import timeline
from ringtree.ir.critical_path import critical_path
from ringtree.ir.host_clocks import EARLY, HostClock, clock_facts, hosts_fact
from ringtree.ir.trace import Event, Trace

ON_ONE = Trace.of(
    3, [0, 0, 1, 1, 1, 2], [Event.COPY, Event.SEND, Event.WAIT, Event.REDUCE, Event.SEND, Event.WAIT],
    [0, 2e-6, 0, 30e-6, 40e-6, 0], [2e-6, 30e-6, 30e-6, 40e-6, 42e-6, 42e-6], nbytes=2800, peer=[-1, 1, 0, 0, 2, 1],
    facts={"source": "measured"},
)  # fmt: skip
CLOCKS = {1: HostClock(77.0, 2.0, 3e-6)}
ON_TWO = replace(ON_ONE, facts={"source": "measured", **hosts_fact([0, 1, 1]), **clock_facts(CLOCKS)})


def test_a_trace_of_one_host_is_drawn_as_ever() -> None:
    text = timeline(ON_ONE)
    assert "host" not in text and "═" not in text and link_table(ON_ONE) == [] == clock_lines(ON_ONE)


def test_hosts_are_named_and_the_network_is_marked() -> None:
    text = timeline(ON_TWO)
    assert "rank 0 host 0" in text and "rank 2 host 1" in text and "╌ its message, ═ one to another host" in text
    assert "message (between hosts 67%) 71%" in text
    rows = text.splitlines()
    under_first = rows[rows.index(next(row for row in rows if row.startswith("rank 0"))) + 1]
    assert "═" in under_first and "╌" not in under_first
    table = [line.split() for line in link_table(ON_TWO)]
    assert table[1] == ["0", "to", "1", "1", "2.73", "KiB", "28", "µs", "28", "µs", "100", "MB/s"]


def test_the_path_says_what_went_between_hosts() -> None:
    words = "\n".join(path_lines(ON_TWO, critical_path(ON_TWO)))
    assert "message between hosts 2.73 KiB  (rank 0 → 1)" in words and "message 2.73 KiB  (rank 1 → 2)" in words


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, "2 hosts, clocks aligned to host 0's within 3 µs (host 1)"),
        (clock_facts({1: HostClock(77.0, 1.0, 3e-6)}), "host 1's clock gained 1e+06 µs a second, which is corrected"),
        ({EARLY: "2 messages of 9, by up to 1 µs"}, "2 messages of 9, by up to 1 µs seemed to arrive before"),
        (
            {"clock of host 1": ""},
            "2 hosts, whose clocks were not aligned: times of different hosts are not comparable",
        ),
        ({"source": "simulated"}, "2 hosts"),
    ],
)
def test_clocks_are_vouched_for(facts: dict[str, str], expected: str) -> None:
    trace = replace(ON_TWO, facts={**ON_TWO.facts, **facts})
    assert any(line.startswith(expected) for line in clock_lines(trace)), clock_lines(trace)


def test_links_of_two_traces_lie_side_by_side() -> None:
    simulated = replace(ON_TWO, facts={"source": "simulated", **hosts_fact([0, 1, 1])}, end_s=ON_TWO.end_s * 2)
    text = comparison(ON_TWO, simulated)
    assert "between hosts" in text
    [row] = [line for line in text.splitlines() if line.strip().startswith("0 to 1") and "message" not in line]
    assert row.split()[3:7] == ["2.73", "KiB", "2.73", "KiB"]
    assert "28 µs" in row and "58 µs" in row
