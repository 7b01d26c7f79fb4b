"""Clocks of hosts: a line through two readings, and traces in one time by it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ringtree.ir.host_clocks import EARLY, HostClock, host_clocks
from ringtree.ir.trace import Event, Trace
from ringtree.runtime.engines.protocols import ARRIVAL
from ringtree.runtime.tracing.clocks import AlignedClock, ClockReading, aligned, held_until
from ringtree.runtime.tracing.parts import merge
from tests.runtime.tracing.test_trace_parts import US, part, sends, waits

HOUR_S = 3600.0


@pytest.mark.parametrize("drift", [0.0, 4e-5, -4e-5])
@pytest.mark.parametrize("wrong_s", [-1e-5, 0.0, 1e-5])
def test_drift_is_corrected_over_the_whole_recording(drift: float, wrong_s: float) -> None:
    """A clock that was 5 s ahead and gains; both readings are wrong by less than their errors, in other directions."""

    def ahead_s(at_s: float) -> float:
        return 5.0 + drift * (at_s - 100.0)

    at_s = (100.0, 100.0 + HOUR_S)
    wrong = zip(at_s, (wrong_s, -wrong_s), strict=True)
    first, last = (ClockReading(1, at, ahead_s(at) + by_s, 1.5e-5) for at, by_s in wrong)
    clock = aligned([first], [last])[1]
    times_s = np.linspace(*at_s, 50)
    right_s = times_s - np.array([ahead_s(at) for at in times_s.tolist()])
    assert clock.error_s == pytest.approx(1.5e-5)
    assert np.abs(clock.corrected(times_s) - right_s).max() <= clock.error_s + 1e-9
    assert clock.drift == pytest.approx(drift, abs=1e-8)


def test_a_good_reading_makes_up_for_a_bad_one_shortly_before() -> None:
    """In 10 ms no clock gains more than 10 us on another."""
    clock = aligned([ClockReading(1, 7.0, 3.0, 2e-3)], [ClockReading(1, 7.01, 3.0005, 5e-6)])[1]
    assert clock.error_s == pytest.approx(15e-6)
    assert clock.offset_s == pytest.approx(3.0005, abs=1e-8)


def test_readings_that_no_drift_explains_stay() -> None:
    clock = aligned([ClockReading(1, 7.0, 3.0, 1e-5)], [ClockReading(1, 8.0, 4.0, 2e-5)])[1]
    assert (clock.offset_s, clock.drift, clock.error_s) == (3.0, 1.0, 2e-5)


def test_a_host_that_was_read_once_is_not_aligned() -> None:
    assert aligned([ClockReading(1, 7.0, 3.0, 1e-5)], []) == {}


@pytest.mark.parametrize(
    ("later", "lasted_s", "offset_s", "drift", "error_s"),
    [
        (None, 0.0, 3.0, 0.0, 1e-5),
        (None, 2.0, 3.0, 0.0, 1e-5 + 2e-4),
        (ClockReading(1, 9.0, 3.0001, 1e-3), 2.0, 3.0, 0.0, 1e-5 + 2e-4),  # as little as is known anyway
        (ClockReading(1, 107.0, 3.001, 1e-3), 100.0, 3.0, 1e-5, 1e-3),
    ],
)
def test_a_host_that_was_read_at_the_beginning_stays_known(
    later: ClockReading | None, lasted_s: float, offset_s: float, drift: float, error_s: float
) -> None:
    begin = ClockReading(1, 7.0, 3.0, 1e-5)
    clock = held_until({1: 7.0 + lasted_s}, [begin], [later] if later else [])[1]
    assert (clock.at_s, clock.offset_s) == (7.0, pytest.approx(offset_s))
    assert (clock.drift, clock.error_s) == (pytest.approx(drift), pytest.approx(error_s))


def test_a_host_that_only_the_launcher_read_is_known_from_the_end_back() -> None:
    clock = held_until({1: 90.0}, [], [ClockReading(1, 100.0, 3.0, 1e-3)])[1]
    assert (clock.offset_s, clock.drift, clock.error_s) == (3.0, 0.0, pytest.approx(2e-3))


def merged(sent: float, came: float, error_us: float, late_us: float = 0.0) -> Trace:
    """A message from rank 0 to rank 1, whose host's clock is 50 s ahead, in microseconds."""
    after = (Event.REDUCE, came, came + 1, -1)
    there = part(1, waits(0, came), after)
    shifted = there.recorded._replace(start_s=there.recorded.start_s + 50, end_s=there.recorded.end_s + 50)
    there = replace(there, recorded=shifted)
    clock = AlignedClock(100.0, 50.0, 0.0, error_us * US)
    return merge(2, [part(0, (Event.COPY, 0, sent, -1), sends(sent + late_us)), there], "world", {}, (0, 1), {1: clock})


def test_times_of_another_host_are_corrected() -> None:
    trace = merged(10, 30, error_us=8)
    assert trace.makespan_s == pytest.approx(31 * US)
    assert host_clocks(trace) == {1: HostClock(50.0, 0.0, 8 * US)}
    assert trace.facts["hosts"] == "0,1" and EARLY not in trace.facts


def test_a_message_between_hosts_is_under_way_until_it_is_there() -> None:
    trace = merged(10, 30, error_us=8)
    [send] = np.flatnonzero(trace.kind == Event.SEND)
    assert (trace.start_s[send], trace.end_s[send]) == (pytest.approx(10 * US), pytest.approx(30 * US))


def test_an_arrival_that_was_noted_ends_the_message() -> None:
    """It is no event, and the first one of the others."""
    there = part(1, (ARRIVAL, 14, 14, 0), waits(20, 20), (ARRIVAL, 40, 40, 0))  # the wait for the second was dropped
    trace = merge(2, [part(0, sends(10)), there], "world", {}, (0, 1))
    assert sorted(trace.kind.tolist()) == [Event.SEND, Event.WAIT]
    assert (trace.start_s[0], trace.end_s[0]) == (0.0, pytest.approx(4 * US))
    assert trace.end_s[1] == pytest.approx(10 * US)


@pytest.mark.parametrize(("error_us", "taken"), [(8, 10), (2, 5)], ids=["within the error", "beyond it"])
def test_an_arrival_before_its_sending_moves_within_the_error(error_us: float, taken: float) -> None:
    """Sent at 10, taken at 5: by more than the clocks' error it stays, and the fact says so."""
    trace = merged(10, 5, error_us)
    [wait] = np.flatnonzero(trace.kind == Event.WAIT)
    assert trace.end_s[wait] == pytest.approx(taken * US)
    assert trace.facts[EARLY].startswith("1 message of 1, by up to 5")
    mine = trace.take(trace.rank == 1)
    assert (mine.start_s[1:] >= mine.end_s[:-1] - 1e-15).all()
