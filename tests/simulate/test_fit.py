"""The constants that a trace was made with are found in it again."""

from __future__ import annotations

import numpy as np
import pytest

import ringtree
from ringtree.algorithms import build
from ringtree.ir.trace import Event, Trace
from ringtree.simulate import Conditions, play
from ringtree.simulate.fit import fit
from ringtree.topology.shapes import direct, on_hosts

COSTS = {"message_s": 2e-7, "step_s": 5e-8, "copy_Bps": 30e9, "reduce_Bps": 8e9}
MACHINE = direct(4, latency_s=6e-7, bandwidth_Bps=np.inf, **COSTS)


def trace(name: str, nbytes: int) -> Trace:
    """One rank begins later, so that some messages are waited for and others are there."""
    return play(build(name, "all_reduce", 4), MACHINE, nbytes, conditions=Conditions(delay_s={1: 3e-6})).trace


def test_fitting_finds_the_parameters_of_a_simulation() -> None:
    found = fit([trace("ring", 1 << 16), trace("one_shot", 1 << 14), trace("ring", 1 << 20)])
    assert found.ranks == 4 and found.latency_s[0] == pytest.approx(6e-7)
    assert found.message_s == pytest.approx(COSTS["message_s"] / 2)  # of both ends, a measured trace shows one
    assert found.step_s == pytest.approx(COSTS["step_s"], rel=1e-6)
    assert found.copy_Bps == pytest.approx(COSTS["copy_Bps"]) and found.reduce_Bps == pytest.approx(COSTS["reduce_Bps"])


def test_a_few_events_that_were_disturbed_move_nothing() -> None:
    clean = trace("ring", 1 << 16)
    copies = np.flatnonzero(clean.kind == Event.COPY)
    disturbed = clean.end_s.copy()
    disturbed[copies[0]] += 1e-3
    columns = {name: getattr(clean, name) for name in ("channel", "call", "nbytes", "peer", "chunk")}
    noisy = Trace.of(4, clean.rank, clean.kind, clean.start_s, disturbed, calls=clean.calls, **columns)
    assert fit([noisy]).copy_Bps == pytest.approx(fit([clean]).copy_Bps)


def test_without_messages_there_is_nothing_to_fit() -> None:
    with pytest.raises(
        ValueError, match="no message, which the machine's constants are fitted to; expected measured ones"
    ):
        fit([Trace.of(1, [], [], [], [])])


def test_a_measured_trace_gives_a_machine() -> None:
    def work(comm: ringtree.Communicator) -> Trace:
        x = np.ones(1 << 14, np.float32)
        with comm.trace() as recording:
            for _ in range(20):
                comm.all_reduce(x, algorithm="ring")
        return recording.trace

    machine = fit([ringtree.spawn(work, 2)[0]])
    assert machine.ranks == 2 and 1e8 < machine.copy_Bps < 1e12 and 1e8 < machine.reduce_Bps < 1e12
    assert 0 < machine.latency_s[0] + machine.message_s < 1e-2


def test_a_trace_over_hosts_is_refused() -> None:
    over = play(build("ring", "all_reduce", 4), on_hosts([0, 0, 1, 1]), 1 << 12).trace
    with pytest.raises(ValueError, match=r"ranks on 2 hosts, .* expected `ringtree simulate --hosts`"):
        fit([over])
