"""The page of traces as a file: every event is in it, with its message and the totals of its rank."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree import pages
from ringtree.ir.host_clocks import HostClock, clock_facts, hosts_fact
from ringtree.ir.trace import COLUMNS, Event, Trace
from ringtree.pages import trace_page as module
from ringtree.pages.trace_page import STEPS, per_rank, trace_data, trace_page
from tests.pages.test_page import data_of, decode
from tests.pages.traces import ring


@given(st.integers(1, 9), st.integers(0, 12), st.integers(0, 99))
def test_the_page_has_the_trace_whole(ranks: int, steps: int, seed: int) -> None:
    trace = ring(ranks, max(1, steps), seed=seed).take(
        np.random.default_rng(seed).permutation(ranks * 3 * max(1, steps))
    )
    found = trace_data([trace])["traces"][0]
    columns = {name: decode(column, found["count"]) for name, column in found["events"].items()}
    assert found["count"] == len(trace) and found["calls"] == list(trace.calls) and found["facts"] == trace.facts
    assert np.all(np.diff(columns["start_s"]) >= 0) and columns["start_s"][0] == 0, "by start, from the first on"
    columns["start_s"], columns["end_s"] = (columns[c] + trace.start_s.min() for c in ("start_s", "end_s"))
    mine = sorted(zip(*(columns[c].tolist() for c in COLUMNS), strict=True))
    theirs = sorted(zip(*(getattr(trace, c).tolist() for c in COLUMNS), strict=True))
    assert [m[:4] + m[6:] for m in mine] == [m[:4] + m[6:] for m in theirs]
    assert np.allclose([m[4:6] for m in mine], [m[4:6] for m in theirs], rtol=0, atol=1e-15)
    other = columns["other"]
    for event in np.flatnonzero(other >= 0):
        assert other[other[event]] == event and {columns["kind"][event], columns["kind"][other[event]]} == {2, 3}
    assert found["messages"] == ranks * max(1, steps) == np.count_nonzero(other >= 0) / 2


def test_ranks_are_summed_up() -> None:
    kinds = (Event.COPY, Event.SEND, Event.WAIT, Event.STALL, Event.REDUCE)
    trace = Trace.of(
        2, [0, 0, 1, 1, 1], kinds, [5, 6, 5, 8, 9], [6, 8, 8, 9, 15], nbytes=[1, 7, 7, 0, 7], peer=[-1, 1, 0, 0, 0]
    )
    expected = {
        "copy_s": [1, 0], "reduce_s": [0, 6], "wait_s": [0, 3], "stall_s": [0, 1], "compute_s": [0, 0],
        "idle_s": [9, 0], "sent_nbytes": [7, 0], "received_nbytes": [0, 7],
    }  # fmt: skip
    assert {name: column.tolist() for name, column in per_rank(trace).items()} == expected


def test_the_critical_path_is_in_it() -> None:
    trace = ring(4, 9)
    path = trace_data([trace])["traces"][0]["critical"]
    start_s, end_s = (decode(path[name], path["count"]) for name in ("start_s", "end_s"))
    assert start_s[0] == 0 and end_s[-1] == pytest.approx(trace.makespan_s) and np.allclose(end_s[:-1], start_s[1:])
    assert sum(path["sums_s"]) == pytest.approx(trace.makespan_s)
    assert path["sums_s"][STEPS.index("reduce")] > 0 and path["sums_s"][STEPS.index("message")] > 0


def test_traces_lie_side_by_side() -> None:
    text = trace_page([ring(2, 3), ring(2, 3, source="simulated", noise=0)], title="both")
    data = data_of(text)
    assert data["title"] == "both" and data["views"] == ["trace"]
    traces = data["data"]["trace"]["traces"]
    assert [t["facts"]["source"] for t in traces] == ["measured", "simulated"]


def test_when_the_last_rank_began_is_in_it() -> None:
    late = Trace.of(2, [0, 1], Event.COPY, [1, 3], [2, 7])
    trace = data_of(trace_page([late]))["data"]["trace"]["traces"][0]
    assert (trace["span_s"], trace["all_begun_s"]) == (6, 4)


def test_a_page_is_named_after_the_traced_calls() -> None:
    calls = ("all_reduce(float32, sum, count 8) by ring", "barrier()")
    traces = [Trace.of(1, 0, Event.COPY, 0, 1, calls=calls[:n]) for n in (1, 2)] + [
        ring(2, 1),
        Trace.of(1, [], [], [], []),
    ]
    titles = [data_of(trace_page([t]))["title"] for t in traces]
    assert titles == [calls[0], f"{calls[0]} and 1 more", "ring all_reduce, 2 ranks", "trace"]


def test_the_script_numbers_events_and_steps_as_python_does() -> None:
    script = (pages.FOLDER / "trace/model.js").read_text(encoding="utf-8")
    for name, words in (("KINDS", [kind.name.lower() for kind in Event]), ("STEPS", STEPS)):
        assert f"const {name} = [{', '.join(map(repr, words))}];" in script


def test_a_trace_of_nothing_is_a_page() -> None:
    assert data_of(trace_page([Trace.of(3, [], [], [], [])]))["data"]["trace"]["traces"][0]["span_s"] == 0


def test_traces_too_large_for_a_page_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"^no trace to show: expected at least one$"):
        trace_page([])
    with pytest.raises(ValueError, match=r"^a trace of no ranks: expected at least one$"):
        trace_page([Trace.of(0, [], [], [], [])])
    monkeypatch.setattr(module, "MOST_EVENTS", 10)
    with pytest.raises(ValueError, match=r"^too large for a page: 18 events; expected at most 10: trace fewer calls"):
        trace_page([ring(2, 3)])


def test_hosts_clocks_and_links_are_in_it() -> None:
    alone = trace_data([ring(4, 3)])["traces"][0]
    assert (alone["hosts"], alone["clock_error_s"], alone["links"]) == ([0] * 4, None, [])
    facts = hosts_fact([0, 0, 5, 5]) | clock_facts({5: HostClock(9.0, 0.0, 2e-6)})
    over = trace_data([replace(ring(4, 3), facts=facts)])["traces"][0]
    assert (over["hosts"], over["clock_error_s"]) == ([0, 0, 5, 5], 2e-6)
    found = [(link["source"], link["target"], link["messages"], link["nbytes"]) for link in over["links"]]
    assert found == [(0, 5, 3, 3 * 4096), (5, 0, 3, 3 * 4096)]
