"""Hosts of a trace: its clocks as facts, and the links between hosts."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.ir.critical_path import critical_path
from ringtree.ir.host_clocks import HostClock, clock_facts, host_clocks, hosts_fact, hosts_of
from ringtree.ir.host_links import HostLink, crossing, host_links
from ringtree.ir.trace import Event, Trace

CLOCKS = {1: HostClock(100000.00000023, -3.5e-07, 2.1e-05), 2: HostClock(-0.5, 0.0, 1e-6)}


def test_clocks_are_kept_to_the_last_bit() -> None:
    others = {"clock of host": "odd", "clock of host 9": "none"}
    trace = Trace.of(1, 0, Event.COPY, 0, 1, facts=others | clock_facts(CLOCKS))
    assert host_clocks(trace) == CLOCKS


@pytest.mark.parametrize(
    ("fact", "expected"), [("", [0, 0, 0]), ("0,0,1", [0, 0, 1]), ("0,1", [0, 0, 0]), ("0,x,1", [0, 0, 0])]
)
def test_a_trace_that_does_not_say_is_of_one_host(fact: str, expected: list[int]) -> None:
    facts = {"hosts": fact} if fact else {}
    assert hosts_of(Trace.of(3, 0, Event.COPY, 0, 1, facts=facts)).tolist() == expected
    assert hosts_fact([0, 0, 1]) == {"hosts": "0,0,1"} and hosts_fact([4, 4]) == {}


def over_hosts() -> Trace:
    """Ranks 0, 1 on host 0, rank 2 on host 1: two messages to rank 2 overlap, one stays on its host, one comes back."""
    rows = [
        (0, Event.SEND, 0.0, 4.0, 2), (2, Event.WAIT, 1.0, 4.0, 0),
        (1, Event.SEND, 2.0, 6.0, 2), (2, Event.WAIT, 4.0, 6.0, 1),
        (0, Event.SEND, 0.0, 1.0, 1), (1, Event.WAIT, 0.0, 1.0, 0),
        (2, Event.SEND, 7.0, 9.0, 0), (0, Event.WAIT, 5.0, 9.0, 2),
    ]  # fmt: skip
    rank, kind, start_s, end_s, peer = zip(*rows, strict=True)
    return Trace.of(3, rank, kind, start_s, end_s, nbytes=12, peer=peer, facts=hosts_fact([0, 0, 1]))


def test_links_between_hosts_are_busy_while_one_message_is_under_way() -> None:
    assert host_links(over_hosts()) == [HostLink(0, 1, 2, 24, 6.0, 4.0), HostLink(1, 0, 1, 12, 2.0, 2.0)]
    assert host_links(over_hosts())[0].rate_Bps == 4.0
    assert np.flatnonzero(crossing(over_hosts())).tolist() == [0, 2, 6]
    assert host_links(Trace.of(2, 0, Event.SEND, 0, 1, peer=1)) == []


def test_the_critical_path_goes_over_the_network() -> None:
    steps = [(step.what, step.rank, step.start_s, step.end_s) for step in critical_path(over_hosts())]
    assert ("message", 2, 7.0, 9.0) in steps and ("message", 1, 2.0, 6.0) in steps
