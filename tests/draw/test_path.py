"""A critical path in a few lines: repeated steps are printed once."""

from __future__ import annotations

from ringtree.algorithms import build
from ringtree.draw.text.path import path_lines
from ringtree.ir.critical_path import critical_path
from ringtree.ir.trace import Trace
from ringtree.simulate import Conditions, play
from ringtree.topology.shapes import direct

MACHINE = direct(4, latency_s=1e-6, bandwidth_Bps=1e9, copy_Bps=1e9, reduce_Bps=1e9)


def lines(trace: Trace, most: int = 12) -> list[str]:
    return path_lines(trace, critical_path(trace), most)


def test_a_lap_is_a_line() -> None:
    assert lines(play(build("ring", "all_reduce", 4), MACHINE, 4000).trace) == [
        "  0 s  +1 µs  copy 1000 B  (rank 2)",
        " 1 µs  +9 µs  3 times: message 1000 B, reduce 1000 B  (rank 2 → 3 → 0 → 1)",
        "10 µs  +9 µs  3 times: message 1000 B, copy 1000 B  (rank 1 → 2 → 3 → 0)",
    ]


def test_the_late_rank_is_where_it_begins() -> None:
    late = play(build("chain", "broadcast", 4), MACHINE, 1000, conditions=Conditions(delay_s={0: 1e-3})).trace
    assert "idle" in lines(late)[0] and "(rank 0)" in lines(late)[0]


def test_omitted_steps_are_counted() -> None:
    trace = play(build("double_tree", "all_reduce", 4), MACHINE, 4000).trace
    assert len(lines(trace, 1)) == 2 and "shorter steps" in lines(trace, 1)[-1]


def test_an_empty_trace_has_no_path() -> None:
    assert lines(Trace.of(2, [], [], [], [])) == []
