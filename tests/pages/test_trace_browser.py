"""The trace view in a browser: its contents, and the mouse and the keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ringtree.ir.host_clocks import HostClock, clock_facts, hosts_fact
from ringtree.ir.trace import Event, Trace
from ringtree.pages.trace_page import trace_page
from tests.pages.browser.driver import Browser, Page
from tests.pages.traces import ring

MEASURED, SIMULATED = ring(4, 12), ring(4, 12, source="simulated", noise=0)
VIEW = "document.querySelector('.view-trace')"


def written(folder: Path, *traces: Trace) -> Path:
    path = folder / "trace.html"
    path.write_text(trace_page(traces), encoding="utf-8")
    return path


@pytest.fixture
def both(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    with browser.open(written(tmp_path, MEASURED, SIMULATED)) as page:
        yield page


def fact(page: Page, name: str) -> str:
    return str(page.run(f"{VIEW}.dataset.{name}"))


def window_s(page: Page) -> tuple[float, float]:
    """The times at the left and the right end, after the next frame."""
    page.run("new Promise(requestAnimationFrame)")
    return float(fact(page, "visibleStart")), float(fact(page, "visibleEnd"))


def place(page: Page, time_s: float, row: int, rows: int) -> tuple[float, float]:
    """Where on the screen a time in the middle of a row's box is; without titles above the rows."""
    left, top, width, height = page.run(
        "(({left, top, width, height}) => [left, top, width, height])"
        "(document.querySelector('.trace-bars').getBoundingClientRect())"
    )
    start_s, end_s = window_s(page)
    return left + (time_s - start_s) / (end_s - start_s) * width, top + (row + 0.6) * height / rows


def test_traces_lie_on_one_axis(both: Page) -> None:
    assert (fact(both, "traces"), fact(both, "events")) == ("2", str(len(MEASURED) + len(SIMULATED)))
    assert window_s(both) == pytest.approx((0, max(MEASURED.makespan_s, SIMULATED.makespan_s)))
    assert fact(both, "layout") == "panels"
    both.click("#trace-interleaved")
    assert fact(both, "layout") == "interleaved"
    both.press("r")
    assert fact(both, "layout") == "panels"
    assert "Measured" in both.text(".trace-card") and "Simulated" in both.text(".trace-card:nth-child(2)")


def test_the_ranks_sums_are_in_a_table(both: Page) -> None:
    busy = MEASURED.take((MEASURED.kind == Event.REDUCE) & (MEASURED.rank == 2))
    cell = both.run("document.querySelector('.trace-ranks tr[data-rank=\"2\"] td[data-reduces]').dataset.reduces")
    assert float(cell) == pytest.approx(float((busy.end_s - busy.start_s).sum()))


def test_keys_and_the_wheel_zoom_to_a_microsecond_and_back(both: Page) -> None:
    whole = window_s(both)
    both.press("+")
    start_s, end_s = window_s(both)
    assert end_s - start_s == pytest.approx((whole[1] - whole[0]) / 2)
    both.press("ArrowRight")
    assert window_s(both)[0] > start_s
    both.press("0")
    assert window_s(both) == whole
    x, y = place(both, 40e-6, 1, 10)
    both.call("mouse.move", x, y)
    for _ in range(8):
        both.call("mouse.wheel", 0, -400)
    start_s, end_s = window_s(both)
    assert end_s - start_s < 1e-6 and start_s < 40e-6 + 1e-7 and end_s > 40e-6 - 1e-7
    both.press("0")
    assert window_s(both) == whole


def test_dragging_moves_the_window(both: Page) -> None:
    both.press("+")
    start_s, end_s = window_s(both)
    x, y = place(both, (start_s + end_s) / 2, 1, 10)
    both.call("mouse.move", x, y)
    both.call("mouse.down")
    both.call("mouse.move", x + 100, y, {"steps": 4})
    both.call("mouse.up")
    moved_s, _ = window_s(both)
    assert moved_s < start_s and fact(both, "selected") == ""


def test_a_click_selects_and_the_other_end_is_a_key_away(browser: Browser, tmp_path: Path) -> None:
    with browser.open(written(tmp_path, MEASURED)) as page:
        trace = MEASURED.take(MEASURED.start_s.argsort(kind="stable"))
        i = next(i for i in range(len(trace)) if (trace.kind[i], trace.rank[i], trace.chunk[i]) == (Event.REDUCE, 1, 0))
        x, y = place(page, float(trace.start_s[i] + trace.end_s[i]) / 2, 1, 4)
        page.call("mouse.move", x, y)
        tip = page.text(".trace-tooltip")
        assert all(words in tip for words in ("reduce · rank 1", "4 KiB (4,096 B)", "rank 0", "all_reduce(float32"))
        page.call("mouse.click", x, y)
        assert "reduce · rank 1" in page.text(".trace-selected-event")
        page.wait("!!document.querySelector('.trace-events tr.selected')")  # the table follows with the next frame
        assert page.run("document.querySelector('.trace-events tr.selected').dataset.event") == fact(page, "selected")
        page.press(",")
        assert "wait · rank 1" in page.text(".trace-selected-event")
        page.press("m")
        assert "message sent · rank 0" in page.text(".trace-selected-event")
        before = window_s(page)
        page.press("f")
        assert window_s(page)[1] - window_s(page)[0] < before[1] - before[0]
        page.press("Escape")
        assert fact(page, "selected") == ""


def test_the_table_lists_the_window_and_selects(both: Page) -> None:
    assert fact_of_table(both) == len(MEASURED) + len(SIMULATED)
    both.press("+")
    both.press("+")
    both.wait(f"document.querySelector('.trace-events').dataset.rows < {len(MEASURED)}")
    start_s, end_s = window_s(both)
    shown = sum(
        int(((t.start_s - t.start_s.min() <= end_s) & (t.end_s - t.start_s.min() >= start_s)).sum())
        for t in (MEASURED, SIMULATED)
    )
    assert fact_of_table(both) == shown
    both.click(".trace-events tbody tr:nth-child(3)")
    assert fact(both, "selected") == both.run(
        "document.querySelector('.trace-events tbody tr:nth-child(3)').dataset.event"
    )


def fact_of_table(page: Page) -> int:
    return int(page.run("document.querySelector('.trace-events').dataset.rows"))


BLUE = """(() => {
  const shown = document.querySelector('.trace-bars');
  const copy = Object.assign(document.createElement('canvas'), {width: shown.width, height: shown.height});
  const context = copy.getContext('2d', {willReadFrequently: true});
  context.drawImage(shown, 0, 0);
  const {data} = context.getImageData(0, 0, copy.width, copy.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) count += data[i] === 0x00 && data[i + 1] === 0x72 && data[i + 2] === 0xb2;
  return count / (copy.width * copy.height);
})()"""


def test_an_event_has_the_same_area_at_any_zoom(browser: Browser, tmp_path: Path) -> None:
    n = 20_000
    kind, start_s = np.tile([Event.COPY, Event.WAIT], n), np.arange(2 * n) * 2e-6 + np.tile([0, -1e-6], n)
    trace = Trace.of(1, 0, kind, start_s, start_s + np.tile([1e-6, 3e-6], n), peer=0)
    with browser.open(written(tmp_path, trace)) as page:
        whole = page.run(BLUE)
        areas = []
        for _ in range(12):
            page.press("+")
            page.run("new Promise(requestAnimationFrame)")
            areas.append(page.run(BLUE))
        assert window_s(page)[1] - window_s(page)[0] < 25e-6, "the last are bars, the first columns of many events"
        assert whole == pytest.approx(0.25 * 0.85, rel=0.1), "a quarter of the row's box"
        for i, area in enumerate(areas):  # an event is a pixel wide at least: where it nearly is, it has more
            assert area == pytest.approx(whole, rel=0.6 if i in (3, 4, 5) else 0.1), i


def test_one_copy_is_distinguished_from_the_next(browser: Browser, tmp_path: Path) -> None:
    with browser.open(written(tmp_path, Trace.of(1, 0, Event.COPY, [0, 2, 4], [2, 4, 5]))) as page:
        without = page.run(BLUE)
        page.press("+")  # two of them are in the window
        page.run("new Promise(requestAnimationFrame)")
        assert without < page.run(BLUE), "two gaps, then one"


def test_the_overview_moves_the_window(both: Page) -> None:
    both.press("+")
    start_s, end_s = window_s(both)
    left, top, width, height = both.run(
        "(({left, top, width, height}) => [left, top, width, height])"
        "(document.querySelector('.trace-window').getBoundingClientRect())"
    )
    both.call("mouse.move", left + width / 2, top + height / 2)
    both.call("mouse.down")
    both.call("mouse.move", left + width / 2 + 80, top + height / 2, {"steps": 4})
    both.call("mouse.up")
    moved = window_s(both)
    assert moved[0] > start_s and moved[1] - moved[0] == pytest.approx(end_s - start_s)


def test_both_languages_and_themes(both: Page) -> None:
    assert "copy" in both.text(".trace-legend")
    both.click("#language")
    assert "复制" in both.text(".trace-legend") and "实测" in both.text(".trace-card")
    ground = both.run("getComputedStyle(document.querySelector('.trace-scroll')).backgroundColor")
    both.click("#theme")
    assert both.run("getComputedStyle(document.querySelector('.trace-scroll')).backgroundColor") != ground


def test_the_shown_part_is_exported(both: Page) -> None:
    name, svg = both.download("#export-svg")
    assert name.endswith(".svg") and svg.startswith(b"<svg") and b"trace-kind-1" in svg and b"Simulated" in svg
    name, png = both.download("#export-png")
    assert name.endswith(".png") and png.startswith(b"\x89PNG")


def test_dropped_events_and_missing_ranks_are_shown(browser: Browser, tmp_path: Path) -> None:
    facts = {"source": "measured", "dropped": "7", "missing": "rank 1", "note": "<b>bold</b>"}
    trace = Trace.of(2, 0, Event.COPY, 0.0, 1.0, nbytes=5 << 30, facts=facts)
    with browser.open(written(tmp_path, trace)) as page:
        assert page.text(".trace-warning").startswith("7 events dropped")
        assert page.text(".trace-warning + .trace-warning").startswith("Nothing was recorded of rank 1")
        assert "<b>bold</b>" in page.text(".trace-card"), "a fact is words, whatever is in it"
        assert "5 GiB" in page.text(".trace-events tbody") and "5.37 GB/s" in page.text(".trace-events tbody")


@pytest.mark.parametrize(("ranks", "messages"), [(16, 10_000), pytest.param(64, 100_000, marks=pytest.mark.slow)])
def test_a_frame_of_many_messages_costs_as_much_as_its_pixels(
    browser: Browser, tmp_path: Path, ranks: int, messages: int
) -> None:
    trace = ring(ranks, messages // ranks + 40)
    with browser.open(written(tmp_path, trace)) as page:
        assert fact(page, "events") == str(len(trace)) and int((trace.kind == Event.SEND).sum()) >= messages
        page.count_strokes()
        for key in ["+"] * 6 + ["ArrowRight"] * 3 + ["-"] * 6:
            page.press(key)
            page.run("new Promise(requestAnimationFrame)")
        frames = page.run("ringtree.stats.frames_ms.length")
        assert frames >= 12 and page.run("strokes") / frames < 3_000, "calls of a canvas in a frame"


def test_hosts_and_their_links_are_named(browser: Browser, tmp_path: Path) -> None:
    facts = {"source": "measured", **hosts_fact([0, 0, 1, 1]), **clock_facts({1: HostClock(9.0, 0.0, 2e-6)})}
    with browser.open(written(tmp_path, replace(MEASURED, facts=facts))) as page:
        assert "2 hosts, clocks aligned within 2 µs" in page.text(".trace-card")
        assert "clock of host" not in page.text(".trace-card")
        assert page.text('.trace-ranks tr[data-rank="2"] th') == "rank 2 · host 1"
        assert page.text('.trace-links tr[data-link="0-1"] td') == "12"
