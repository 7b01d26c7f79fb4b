"""A trace as text: compared character by character, and any trace can be drawn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ringtree.draw.text.timeline import GLYPHS, MOST_ROWS, timeline
from ringtree.ir.trace import Event, Trace

US = 1e-6
Golden = Callable[[str, str], None]


def chain(ranks: int, late: int = -1) -> Trace:
    """Two pieces go down a chain. Each rank copies one on for 4 us, and the message takes 3; who is `late` begins 20 us
    after the others, and stalls a while before its second."""
    rows: list[tuple[int, Event, float, float, int]] = []
    there = [0.0, 0.0]
    for rank in range(ranks):
        now = 20.0 if rank == late else 0.0
        for piece in range(2):
            if rank:
                rows.append((rank, Event.WAIT, now, max(now, there[piece]), rank - 1))
                now = max(now, there[piece])
            if rank == late and piece:
                rows.append((rank, Event.STALL, now, now + 6, rank + 1))
                now += 6
            work = Event.REDUCE if rank else Event.COPY
            rows.append((rank, work, now, now + 4, rank - 1))
            now += 4
            if rank < ranks - 1:
                rows.append((rank, Event.SEND, now, now + 3, rank + 1))
            there[piece] = now + 3
    who, kind, start, end, peer = (np.array(column) for column in zip(*rows, strict=True))
    facts = {"source": "simulated", "name": "chain reduce", "topology": "a switch"}
    return Trace.of(ranks, who, kind, start * US, end * US, nbytes=32768, peer=peer, facts=facts)


def test_a_straggler(golden: Golden) -> None:
    golden("timelines/straggler.txt", timeline(chain(4, late=2)))


def test_beyond_16_ranks_those_that_matter_are_drawn(golden: Golden) -> None:
    golden("timelines/folded.txt", timeline(chain(40, late=20)))


def test_a_common_scale() -> None:
    both = [timeline(trace, span_s=100 * US).splitlines() for trace in (chain(4), chain(4, late=2))]
    assert both[0][2:4] == both[1][2:4]
    assert both[0][2].split() == ["0", "µs", "20", "µs", "40", "µs", "60", "µs", "80", "µs"]
    plain = timeline(chain(4, late=2), span_s=0.0)
    assert plain == timeline(chain(4, late=2))


def test_dropped_events_and_missing_ranks_are_reported() -> None:
    text = timeline(Trace.of(3, 0, Event.COPY, 0, 1, facts={"dropped": "7", "missing": "ranks 1, 2"}))
    assert "\n7 later events were not recorded" in text and "\nof ranks 1, 2 nothing is known\n" in text


def test_a_trace_without_time_has_no_picture() -> None:
    assert timeline(Trace.of(1, [], [], [], [])).splitlines() == [
        "trace: 1 rank, 0 events, 0 s",
        "",
        "rank  copies  reduces  waits  stalls  ends at  sent  received",
        "   0     0 s      0 s    0 s     0 s      0 s   0 B       0 B",
    ]


def test_a_column_shows_its_longest_event() -> None:
    """As the picture is read: the cells of a kind are the time it took."""
    lines = timeline(chain(4, late=2), width=109).splitlines()  # a hundred cells
    row = next(line for line in lines if line.startswith("rank 3"))
    trace = chain(4, late=2)
    for kind, glyph in GLYPHS.items():
        share = trace.kind_seconds()[3, kind] / trace.makespan_s
        assert abs(row[9:].count(glyph) - 100 * share) <= 2


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    ranks = draw(st.integers(1, 20))
    rank, time = st.integers(0, ranks - 1), st.floats(0, 1e3) | st.floats(0, 1e-6)
    first = st.tuples(rank, st.sampled_from(Event), st.just(0.0), st.floats(1e-9, 1e3), rank)
    others = st.lists(st.tuples(rank, st.sampled_from(Event), time, time, rank), max_size=29)
    who, kind, a, b, peer = map(np.array, zip(draw(first), *draw(others), strict=True))
    return Trace.of(ranks, who, kind, np.minimum(a, b), np.maximum(a, b), peer=peer, nbytes=1)


@given(traces(), st.sampled_from([40, 100, 131]))
def test_any_trace_is_drawn_within_the_width(trace: Trace, width: int) -> None:
    lines = timeline(trace, width).splitlines()
    picture = lines[: next(i for i, line in enumerate(lines) if line.startswith("critical path:"))]
    assert all(len(line) <= width for line in picture)
    assert sum(line.startswith("rank ") for line in picture) == min(trace.ranks, MOST_ROWS)
    assert sum(int(line.split()[1]) for line in picture if line[0:1] == "⋮") == max(0, trace.ranks - MOST_ROWS)
    assert any("━" in line or "╌" in line for line in picture)


def test_the_programs_own_work_is_drawn_behind_all_else() -> None:
    trace = Trace.of(
        2, [0, 0, 1], [Event.COMPUTE, Event.WAIT, Event.COPY], [0, 4, 0], [10, 8, 10], peer=1, calls=["own"]
    )
    text = timeline(trace, 100)
    row = next(line for line in text.splitlines() if line.startswith("rank 0"))
    assert abs(row.count("░") - 1.5 * row.count("·")) <= 2
    assert "░ computes" in text
    assert "copies" in text.splitlines()[-3] and "computes" in text.splitlines()[-3]
    without = timeline(Trace.of(1, 0, Event.COPY, 0, 1))
    assert "computes" not in without
