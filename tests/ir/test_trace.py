"""Totals of a trace."""

import dataclasses

import numpy as np
import pytest

from ringtree.ir.trace import Event, Trace


def ring(n: int, nbytes: int = 10) -> Trace:
    r = np.arange(n)
    return Trace.of(n, r, Event.SEND, r * 1.0, r + 2.0, nbytes=nbytes, peer=(r + 1) % n, facts={"source": "simulated"})


def test_bytes_per_pair_and_makespan():
    trace = ring(3)
    assert trace.sent_nbytes().tolist() == [[0, 10, 0], [0, 0, 10], [10, 0, 0]]
    assert [of.tolist() for of in trace.sent_of_pairs()] == [[1, 5, 6], [10, 10, 10]]
    assert [column.tolist() for column in trace.traffic_nbytes()] == [[10, 10, 10], [10, 10, 10]]
    assert trace.makespan_s == 4.0


def test_only_sends_count_as_sent():
    assert not Trace.of(2, 0, [Event.WAIT, Event.COPY, Event.REDUCE], 0, 1, nbytes=5, peer=1).sent_nbytes().any()


def test_seconds_per_rank_and_kind():
    trace = Trace.of(2, [0, 0, 1], [Event.COPY, Event.COPY, Event.STALL], [0, 3, 0], [1, 5, 4])
    assert trace.kind_seconds().tolist() == [[3, 0, 0, 0, 0, 0], [0, 0, 0, 0, 4, 0]]


def test_concatenation_keeps_the_first_facts():
    both = Trace.concatenate([ring(3), ring(3, 7)])
    assert len(both) == 6
    assert both.sent_nbytes()[0, 1] == 17
    assert both.facts == {"source": "simulated"}


def test_the_empty_trace():
    empty = Trace.concatenate([])
    assert (len(empty), empty.makespan_s, empty.sent_nbytes().shape) == (0, 0.0, (0, 0))


def test_take():
    late = ring(3).take(ring(3).start_s > 0)
    assert late.rank.tolist() == [1, 2]
    assert late.makespan_s == 3.0


def test_calls_keep_their_names_when_traces_are_joined():
    one, two = (Trace.of(1, 0, Event.COPY, [0, 1], 2, call=[0, 1], calls=names) for names in ("ab", "cd"))
    both = Trace.concatenate([one, two])
    assert [both.calls[c] for c in both.call] == ["a", "b", "c", "d"]


def test_messages_pair_sends_and_waits_in_order():
    kinds = [Event.WAIT, Event.SEND, Event.SEND, Event.WAIT, Event.SEND]
    trace = Trace.of(2, [1, 0, 0, 1, 0], kinds, [0, 1, 2, 5, 6], 9, peer=[0, 1, 1, 0, 1], channel=[0, 0, 1, 1, 0])
    assert [x.tolist() for x in trace.messages()] == [[1, 2], [0, 3]]  # the last one was not waited for


def test_traces_of_different_ranks_do_not_join():
    with pytest.raises(ValueError, match=r"traces of \[2, 3\] ranks"):
        Trace.concatenate([ring(2), ring(3)])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rank": 2}, r"event 0 \(rank 2, .*\): expected a rank of 0..1"),
        ({"kind": 9}, "expected a kind"),
        ({"call": 1}, "expected a call of 0..0"),
        ({"end_s": -1.0}, "expected its end after its start"),
        ({"end_s": np.nan}, "expected its end after its start"),
        ({"end_s": np.inf}, "expected a finite start and end"),
        ({"nbytes": -1}, "expected no negative bytes"),
        ({"kind": Event.SEND, "peer": -1}, "expected a peer of 0..1"),
    ],
)
def test_an_event_that_cannot_be_is_refused(changes, message):
    event = {"rank": 0, "kind": Event.COPY, "start_s": 0.0, "end_s": 1.0, "nbytes": 1, "peer": -1} | changes
    with pytest.raises(ValueError, match=message):
        Trace.of(2, **event)


def test_a_trace_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ring(2).ranks = 3
