"""Where a step's time went, and its bytes beside the formula."""

from __future__ import annotations

import numpy as np

from ringtree.ir.trace import Event, Trace
from ringtree.training import ParallelLayout
from ringtree.training.measure.shares import Sent, Share, compare, held_up, shares
from ringtree.training.strategies.strategy import Traffic

LAYOUT = ParallelLayout(dp=2, tp=2)
TRAFFIC = [
    Traffic("gradients", "all_reduce", "data", 2, 50),
    Traffic("activations", "all_reduce", "tp", 2, 10),
    Traffic("norms", "all_reduce", "tp", 2, 5),
    Traffic("keys", "send", "cp", 1, 70),
    Traffic("parameters", "broadcast", "dp", 2, 1),
]


def step() -> Trace:
    """Channel 0 is everybody's, 1 and 2 are the data parallel groups', 3 one of the tensor parallel ones'."""
    rows = [
        # rank, channel, call, kind, start, end, nbytes, peer
        (0, 1, 0, Event.COPY, 0.0, 1.0, 40, -1),
        (0, 1, 0, Event.SEND, 1.0, 1.0, 60, 2),
        (2, 1, 0, Event.WAIT, 0.0, 4.0, 60, 0),
        (1, 2, 1, Event.REDUCE, 0.0, 2.0, 40, -1),
        (1, 2, 1, Event.SEND, 2.0, 2.0, 40, 3),
        (0, 3, 2, Event.SEND, 5.0, 5.0, 30, 1),
        (0, 3, 2, Event.STALL, 5.0, 5.5, 0, 1),
        (3, 0, 3, Event.WAIT, 0.0, 1.0, 0, 0),
    ]
    rank, channel, call, kind, start_s, end_s, nbytes, peer = np.array(rows).T
    facts = {"channel 1": "ranks 0, 2", "channel 2": "ranks 1, 3", "channel 3": "ranks 0, 1"}
    calls = [f"all_reduce(float32, sum, count {n}) by two_shot" for n in (15, 10, 7)]
    return Trace.of(
        4, rank, kind, start_s, end_s, nbytes=nbytes, peer=peer, channel=channel, call=call,
        calls=[*calls, "barrier() by dissemination"], facts=facts,
    )  # fmt: skip


def test_time_is_added_up_by_collective_and_axis() -> None:
    assert shares(step(), LAYOUT, TRAFFIC) == [
        Share("all_reduce", "data", 3 / 4, 4 / 4, 100, ("two_shot",)),
        Share("barrier", "all", 0.0, 1 / 4, 0),
        Share("all_reduce", "tp", 0.5 / 4, 0.0, 30, ("two_shot",)),
    ]


def test_counted_bytes_stand_beside_the_formula() -> None:
    found = [*shares(step(), LAYOUT, TRAFFIC), Share("scan", "dp", 0.0, 0.0, 8)]
    assert compare(TRAFFIC, found, LAYOUT) == [
        Sent(("gradients",), "all_reduce", "data", 2, 100, 100, ("two_shot",)),
        Sent(("activations", "norms"), "all_reduce", "tp", 2, 30, 30, ("two_shot",)),
        Sent(("parameters",), "broadcast", "dp", 2, 1, None),
        Sent((), "scan", "dp", 2, 0, 8),
    ]


def test_a_server_that_waits_beside_its_worker_holds_nobody_up() -> None:
    rows = [
        # rank, channel, call, kind, start, end, nbytes, peer
        (0, 0, 0, Event.COMPUTE, 1.0, 3.0, 0, -1),
        (0, 0, 0, Event.COMPUTE, 4.0, 5.0, 0, -1),
        (0, 1, 1, Event.WAIT, 0.0, 2.0, 8, 1),
        (0, 1, 1, Event.WAIT, 2.0, 4.5, 8, 1),
        (1, 1, 1, Event.WAIT, 1.0, 3.0, 8, 0),
    ]
    rank, channel, call, kind, start_s, end_s, nbytes, peer = np.array(rows).T
    trace = Trace.of(
        2, rank, kind, start_s, end_s, nbytes=nbytes, peer=peer, channel=channel, call=call,
        calls=["forward", "message(float32, count 2, tag 0)"], facts={"channel 1": "messages of ranks 0, 1"},
    )  # fmt: skip
    cut = held_up(trace)
    lasted_s = (cut.end_s - cut.start_s)[cut.kind == Event.WAIT]
    assert sorted(lasted_s.tolist()) == [1.0, 1.0, 2.0]


def test_of_waits_that_overlap_on_a_rank_each_moment_counts_once() -> None:
    rows = [
        # rank, kind, start, end
        (0, Event.WAIT, 0.0, 6.0),
        (0, Event.WAIT, 1.0, 5.0),
        (0, Event.WAIT, 4.0, 9.0),
        (0, Event.COMPUTE, 8.0, 12.0),
        (1, Event.WAIT, 0.0, 3.0),
    ]
    rank, kind, start_s, end_s = np.array(rows).T
    zeros = np.zeros(len(rows), np.int64)
    cut = held_up(Trace.of(2, rank, kind, start_s, end_s, nbytes=zeros, peer=1 - rank, channel=zeros, call=zeros,
        calls=["message(float32, count 2, tag 0)"]))  # fmt: skip
    lasted_s = (cut.end_s - cut.start_s)[cut.kind == Event.WAIT]
    assert sorted(lasted_s.tolist()) == [0.0, 2.0, 3.0, 6.0]


def test_excess_bytes_are_explained() -> None:
    layout = ParallelLayout(dp=4)
    traffic = [Traffic("gradients", "all_reduce", "data", 4, 100), Traffic("tokens", "all_to_all", "dp", 4, 10)]
    found = [
        Share("all_reduce", "data", 0.0, 0.0, 900, ("one_shot", "two_shot")),
        Share("all_to_all", "dp", 0.0, 0.0, 40, ("pairwise",)),
        Share("broadcast", "data", 0.0, 0.0, 8, ("flat",)),
    ]
    rows = compare(traffic, found, layout, {"broadcast": "the buckets' order"})
    assert [row.why for row in rows] == ["one_shot: fewer steps, more bytes", "", "the buckets' order"]
