"""Two traces beside each other: the printed text character by character, and the differences it names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from ringtree.draw.text.comparison import comparison
from ringtree.ir.trace import Event, Trace
from tests.draw.test_timeline import chain, traces


def measured(trace: Trace) -> Trace:
    return replace(trace, facts={"source": "measured", "machine": "2 cores"})


def test_real_beside_simulated(golden: Callable[[str, str], None]) -> None:
    golden("timelines/comparison.txt", comparison(measured(chain(3, late=1)), chain(3)))


def test_of_many_ranks_those_that_differ_most_are_listed() -> None:
    late = chain(20, late=18)
    text = comparison(chain(20), late)
    assert "\n  18 " in text and "\n  19 " in text and "… and 4 ranks that differ less" in text
    assert "first" in text and "second" in text


def test_other_bytes_and_messages_are_reported() -> None:
    whole, half = chain(3), chain(3)
    fewer = replace(half, nbytes=np.where(half.peer == 2, half.nbytes // 2, half.nbytes))
    assert "bytes differ for 1 pair of ranks:\n  1 to 2: first 64 KiB, second 32 KiB" in comparison(whole, fewer)
    cut = whole.take(~((whole.kind == Event.SEND) & (whole.rank == 1) & (whole.start_s > 12e-6)))
    text = comparison(whole, cut)
    assert "  1 to 2, 2 beside 1 messages: first 7 µs, second 3 µs (-4 µs)" in text and "  0 to 1, message 0: " in text


def test_calls_are_compared_in_their_order_and_only_as_many() -> None:
    one = Trace.of(1, 0, Event.COPY, [0, 2], [2, 3], call=[0, 1], calls=["a", "b"])
    other = Trace.of(1, 0, Event.COPY, [0, 2], [2, 5], call=[0, 1], calls=["a", "c"])
    assert "  b / c: first 1 s, second 3 s (+2 s)\n  a: 2 s in both" in comparison(one, other)
    assert "calls are not compared: first 2 and second 1" in comparison(one, Trace.of(1, 0, Event.COPY, 0, 1))


def test_other_ranks_are_refused() -> None:
    with pytest.raises(ValueError, match="traces of 3 and 4 ranks; expected two of as many"):
        comparison(chain(3), chain(4))


def test_nothing_beside_nothing() -> None:
    nothing = Trace.of(2, [], [], [], [])
    assert "makespan: first 0 s, second 0 s\nfrom when the last rank began: first 0 s, second 0 s\n" in comparison(
        nothing, nothing
    )


@given(traces(), traces())
def test_any_two_traces_of_as_many_ranks_are_compared(one: Trace, other: Trace) -> None:
    ranks = max(one.ranks, other.ranks)
    text = comparison(replace(one, ranks=ranks), replace(other, ranks=ranks))
    assert "makespan: first " in text and "nan" not in text and "inf" not in text
