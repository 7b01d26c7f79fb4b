"""Lines of bench records, and where they cross."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree import pages
from ringtree.draw.text.report import PREDICTED, STATISTICS, Crossing, best_changes, crossings, points, report_text
from ringtree.pages.report_page import report_data, report_page


def row(nbytes: int, time_us: float, **other: Any) -> dict[str, Any]:
    """A row with no more than it needs."""
    return {"collective": "all_reduce", "ranks": 4, "nbytes": nbytes, "dtype": "float32", "op": "sum",
            "time_us": time_us} | other  # fmt: skip


def record(*rows: dict[str, Any], **machine: Any) -> dict[str, Any]:
    return {"machine": {"cpu": "a", "cores": 2} | machine, "effort": {}, "rows": list(rows)}


def test_power_laws_cross_where_they_are_equal() -> None:
    a = [(x, 3.0) for x in (1.0, 10.0, 1000.0)]
    b = [(x, 0.03 * x) for x in (1.0, 7.0, 1000.0)]
    assert crossings({0: a, 1: b}) == [Crossing(1, 0, pytest.approx(100.0))]
    assert crossings({1: b, 0: a}) == [Crossing(1, 0, pytest.approx(100.0))]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([1, 2, 4], [2, 4, 8], []),
        ([1, 4, 1], [2, 4, 2], []),
        ([1, 4, 9], [2, 4, 8], [Crossing(0, 1, 2.0)]),
        ([1, 1, 1], [1, 1, 1], []),
        ([1, 4, 4], [4, 1, 1], [Crossing(0, 1, pytest.approx(2**0.5))]),
    ],
    ids=["below", "touches", "crosses at a point", "the same", "crosses between"],
)
def test_to_touch_is_not_to_cross(a: list[float], b: list[float], expected: list[Crossing]) -> None:
    at = (1.0, 2.0, 4.0)
    assert crossings({0: list(zip(at, a, strict=True)), 1: list(zip(at, b, strict=True))}) == expected


def test_predicted_times_are_named_so() -> None:
    """Alone they have no side, type or operation; beside measured ones each line is named."""
    made = {"machine": {"source": PREDICTED}, "rows": [row(8, 1.0, algorithm="a"), row(8, 2.0, algorithm="b")]}
    assert report_text({"sweep": made}).startswith("all_reduce, 4 ranks, predicted, not measured\n")
    assert report_data({"sweep": made})["predicted"]
    both = {"sweep": made, "bench": record(row(8, 3.0))}
    assert "all_reduce float32 sum, 4 ranks, out of place, median\n" in report_text(both)
    assert "a (predicted)" in points(both)[0] and not report_data(both)["predicted"]


heights = st.lists(st.floats(0.1, 1e4), min_size=6, max_size=6)


@given(st.lists(heights, min_size=2, max_size=5))
def test_the_best_changes_at_crossings_and_nowhere_else(drawn: list[list[float]]) -> None:
    """Between two changes the same line is the lowest, looked at on a fine grid."""
    at = 2.0 ** np.arange(6)
    lines = {i: list(zip(at.tolist(), own, strict=True)) for i, own in enumerate(drawn)}
    grid = np.linspace(0, np.log(at[-1]), 500)
    low = np.array([np.interp(grid, np.log(at), np.log(own)) for own in drawn])
    changes = [c.x for c in best_changes(lines)]
    for i in range(len(grid) - 1):
        first, then = low[:, i].argmin(), low[:, i + 1].argmin()
        clear = low[then, i] - low[first, i] > 1e-3 and low[first, i + 1] - low[then, i + 1] > 1e-3
        if first != then and clear:
            assert any(grid[i] <= np.log(x) <= grid[i + 1] for x in changes)
    for c in best_changes(lines):
        assert np.interp(np.log(c.x), grid, low.min(axis=0)) == pytest.approx(
            np.interp(np.log(c.x), grid, low[c.below]), abs=0.2
        )


def test_a_line_is_an_algorithm_or_a_library() -> None:
    rows = [row(8, 1.0, algorithm="ring"), row(8, 2.0, algorithm="swing"), row(8, 3.0, library="Other 1.0")]
    names, found = points({"a": record(*rows)})
    assert names == ["ring", "swing", "Other 1.0"] and [p.line for p in found] == [0, 1, 2]
    assert found[0].bus_factor == 1.5 and found[0].times_us == (1.0, None, None, None)


def test_choices_by_size_are_one_line() -> None:
    names, found = points({"a": record(row(8, 1.0, algorithm="one_shot"), row(64, 2.0, algorithm="ring"))})
    assert names == ["ringtree"] and [p.line for p in found] == [0, 0]
    assert "ringtree (one_shot)" in report_text({"a": record(*(p.row for p in found))})


def test_several_records_lie_over_each_other() -> None:
    names, _ = points({"old": record(row(8, 1.0, algorithm="ring")), "new": record(row(8, 1.0, algorithm="ring"))})
    assert names == ["ring · old", "ring · new"]


def test_a_broadcast_has_one_side() -> None:
    one = row(8, 5.0, in_place_time_us=5.0, out_of_place=False)
    assert points({"a": record(one)})[1][0].times_us == (None, None, 5.0, None)
    assert "in place, median" in report_text({"a": record(one)})


def test_the_text_names_the_best_algorithm_and_its_range() -> None:
    rows = [row(n, t, algorithm=a) for n, one, two in ((1024, 1, 2), (4096, 4, 2)) for t, a in ((one, "x"), (two, "y"))]
    text = report_text({"a": record(*rows)}).splitlines()
    assert text[0] == "all_reduce float32 sum, 4 ranks, out of place, median"
    assert [line.split() for line in text[2:4]] == [
        ["1", "KiB", "1.00", "1.536", "x", "y,", "2.00", "times", "the", "time"],
        ["4", "KiB", "2.00", "3.072", "y", "x,", "2.00", "times", "the", "time"],
    ]
    assert text[4] == "from about 2 KiB on, y is faster than x"


def test_the_page_names_the_machines_that_differ() -> None:
    same, other = record(row(8, 1.0), python="3.10"), record(row(8, 1.0), python="3.11", cores=4)
    assert report_data({"a": same, "b": record(row(8, 2.0))})["differing"] == []
    assert report_data({"a": same, "b": other})["differing"] == ["cores"]


def test_a_page_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="20,001 rows: too many for a page: expected at most 20,000"):
        report_page({"a": record(*[row(8, 1.0)] * 20_001)})


def test_the_script_numbers_times_as_python_does() -> None:
    script = (pages.FOLDER / "report/choice.js").read_text(encoding="utf-8")
    assert f"static STATISTICS = [{', '.join(map(repr, STATISTICS))}];" in script
