"""A pipeline's work as text, and its bubble: from traces made by hand."""

from __future__ import annotations

import pytest

from ringtree.draw.text.pipeline import bubble, has_pipeline, pipeline
from ringtree.ir.trace import Event, Trace

CALLS = ("forward 0", "forward 1 of stage 2", "backward 0", "backward 11", "loss")
TWO = Trace.of(
    2,
    rank=[0, 0, 1, 0, 1, 1],
    kind=[Event.COMPUTE, Event.COMPUTE, Event.COMPUTE, Event.COMPUTE, Event.COMPUTE, Event.WAIT],
    start_s=[0, 1, 1, 3, 2, 0],
    end_s=[1, 2, 2, 4, 4, 1],
    peer=[-1, -1, -1, -1, -1, 0],
    call=[0, 1, 0, 2, 3, 4],
    calls=CALLS,
)


def test_micro_batches_stand_where_they_are_computed() -> None:
    heading, first, second = pipeline(TWO, 48).splitlines()
    assert heading == "pipeline: 2 ranks, 12 micro-batches, 4 s, a bubble of 33.3% of what is computed"
    assert first == "rank 0  " + "0" * 10 + "1" * 10 + "." * 10 + "₀" * 10
    assert second == "rank 1  " + "." * 10 + "0" * 10 + "₁" * 20


def test_the_bubble_is_waiting_over_computing() -> None:
    assert bubble(TWO) == pytest.approx((2 * 4 - 6) / 6)


def test_other_work_is_no_pipeline() -> None:
    other = TWO.take(TWO.call == 4)
    assert not has_pipeline(other)
    with pytest.raises(ValueError, match="no work of a pipeline"):
        bubble(other)
