"""The page of bench records, in a browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ringtree.draw.text.report import PREDICTED
from ringtree.pages.report_page import report_page
from tests.draw.test_report import record, row
from tests.pages.browser.driver import Browser, Page

SIZES = (8, 512, 32768, 1 << 20)


def rows(**other: Any) -> list[dict[str, Any]]:
    """Two lines that cross at 512 bytes and 4 ranks, both sides, on 2, 4 and 8 ranks."""
    return [
        row(n, t, ranks=ranks, algorithm=name, time_min_us=t / 2, in_place_time_us=t / 4, in_place_time_min_us=t / 8)
        | other
        for ranks in (2, 4, 8)
        for n in SIZES
        for name, t in (("short", 1.0 * ranks * n**0.5), ("long", 4.0 * 512**0.5))
    ]


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    with shown(browser, tmp_path, {"bench": record(*rows())}) as page:
        yield page


def shown(browser: Browser, folder: Path, records: dict[str, Any], **options: Any) -> Any:
    path = folder / "report.html"
    path.write_text(report_page(records), encoding="utf-8")
    return browser.open(path, **options)


def drawn(page: Page, chart: str, line: str) -> list[tuple[float, float]]:
    """The points of a line in a chart."""
    where = f'[data-chart="{chart}"] [data-line="{line}"] .point'
    read = "e => [Number(e.dataset.x), Number(e.dataset.y)]"
    return [(x, y) for x, y in page.run(f"[...document.querySelectorAll({json.dumps(where)})].map({read})")]


def test_the_charts_have_the_figures(page: Page) -> None:
    assert page.run("document.querySelector('#view-report').dataset.ranks") == "8"
    for n, (x, y) in zip(SIZES, drawn(page, "time-size", "short"), strict=True):
        assert x == n and y == pytest.approx(8 * n**0.5)
    for n, (x, y) in zip(SIZES, drawn(page, "busbw-size", "short"), strict=True):
        assert x == n and y == pytest.approx(n * 1.75 / (8 * n**0.5) / 1e3)
    assert [x for x, _ in drawn(page, "time-ranks", "long")] == [2, 4, 8]
    assert page.count(".report-chart") == 4


def test_switches_change_the_figures(page: Page) -> None:
    page.click("#report-in_place")
    page.click("#report-min")
    assert page.run("document.querySelector('#view-report').dataset.statistic") == "in_place_time_min_us"
    page.press("ArrowLeft")
    assert drawn(page, "time-size", "short")[0] == (8, pytest.approx(4 * 8**0.5 / 8))


def test_crossovers_are_marked_with_their_size(page: Page) -> None:
    for chart in ("time-size", "busbw-size"):
        mark = json.dumps(f'[data-chart="{chart}"] .report-crossing')
        read = "e => [Number(e.dataset.x), e.dataset.before, e.dataset.after, e.querySelector('text').textContent]"
        assert page.run(f"[...document.querySelectorAll({mark})].map({read})") == [
            [pytest.approx(128.0), "short", "long", "128 B"]
        ]


def test_the_legend_hides_a_line_and_its_crossovers(page: Page) -> None:
    page.click('.report-legend [data-line="long"]')
    assert drawn(page, "time-size", "long") == [] and len(drawn(page, "time-size", "short")) == 4
    assert page.count(".report-crossing") == 0
    page.click('.report-legend [data-line="long"]')
    assert len(drawn(page, "time-size", "long")) == 4 and page.count('[data-chart="time-size"] .report-crossing') == 1


def test_the_legends_line_keeps_the_focus_when_it_is_used(page: Page) -> None:
    line = '.report-legend [data-line="long"]'
    page.call("focus", line)
    for key, pressed in (("Enter", "false"), (" ", "true"), ("Shift+Enter", "true")):
        page.press(key)
        focused = page.run("[document.activeElement.dataset.line, document.activeElement.ariaPressed]")
        assert focused == ["long", pressed], key


def test_a_point_shows_its_figures(page: Page) -> None:
    page.hover('[data-chart="time-size"] [data-line="short"] .point[data-x="32768"]')
    tip = page.text(".report-tip")
    assert "32 KiB (32,768 B)" in tip and "8 ranks" in tip and "1,448.2 µs" in tip and "0.039598 GB/s" in tip
    assert page.count(".report-line.faded") == 4


def test_the_line_that_is_pointed_at_shows_its_crossings(browser: Browser, tmp_path: Path) -> None:
    third = [
        r | {"algorithm": "third", "time_us": 2 * r["time_us"] ** 0.9} for r in rows() if r["algorithm"] == "short"
    ]
    with shown(browser, tmp_path, {"bench": record(*rows(), *third)}) as page:
        assert page.count('[data-chart="time-size"] .report-crossing') == 1
        page.hover('.report-legend [data-line="third"]')
        assert page.count('[data-chart="time-size"] g.guide') == 2
        page.hover(".report-heading")
        assert page.count("g.guide") == 0


def test_the_table_sorts(page: Page) -> None:
    def column() -> list[float]:
        cells = "[...document.querySelectorAll('.report-table tr[data-point] td:nth-child(5)')]"
        return [float(text.replace(",", "")) for text in page.run(f"{cells}.map(cell => cell.textContent)")]

    page.click("[data-column=median]")
    assert column() == sorted(column()) and len(column()) == 24
    page.click("[data-column=median]")
    assert column() == sorted(column(), reverse=True)


def test_the_words_are_chinese_and_back(page: Page) -> None:
    page.click("#language")
    assert "总线带宽" in page.text('[data-chart="busbw-size"]') and "机器与版本" in page.text("#views")
    page.click("#language")
    assert "Bus bandwidth" in page.text('[data-chart="busbw-size"]')


def test_a_dark_chinese_reader_is_met_as_such(browser: Browser, tmp_path: Path) -> None:
    with shown(browser, tmp_path, {"bench": record(*rows())}, locale="zh-CN", colorScheme="dark") as page:
        assert page.run("document.documentElement.dataset.theme") == "dark"
        assert page.text("#report-median") == "中位数"


def test_the_picture_stands_alone(page: Page) -> None:
    name, picture = page.download("#export-svg")
    assert name.endswith(".svg")
    words = [element.text for element in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]
    assert "Time · 8 ranks" in words and "short" in words
    assert b"var(" not in picture
    name, picture = page.download("#export-png")
    assert name.endswith(".png") and picture.startswith(b"\x89PNG")


def test_the_measurement_is_described_in_words(browser: Browser, tmp_path: Path) -> None:
    effort = {"warmup": 5, "iterations": None, "check": True, "across": 3, "symmetric": False, "rounds": 2}
    with shown(browser, tmp_path, {"bench": record(*rows()) | {"effort": effort}}) as page:
        expected = "5 calls to warm up · every element checked · time of the slowest rank · rounds 2"
        assert page.text(".report-machines").split("\t")[-1] == expected
    odd = {"across": "all", "warmup": "some", "check": 0}
    with shown(browser, tmp_path, {"bench": record(*rows()) | {"effort": odd}}, locale="zh-CN") as page:
        assert page.text(".report-machines").split("\t")[-1] == "预热 some 次 · 未校验"


def test_machines_that_differ_are_warned_of(browser: Browser, tmp_path: Path) -> None:
    records = {"here": record(*rows(), cores=2), "there": record(*rows(library="Other"), cores=64)}
    with shown(browser, tmp_path, records) as page:
        assert page.text(".report-warning").startswith("Measured on different machines (cores differ)")
        assert page.text(".report-machines .differs") == "2"
        assert "Other long" in page.text(".report-legend")


@pytest.mark.parametrize(
    "lone",
    [
        row(8, 1.0),
        row(8, 1.0, ranks=1),
        row(0, 1.0, collective="barrier", op="none"),
        row(8, 0.0, in_place_time_min_us=2.0),
        row(1 << 40, 1e9, algorithm="a<b>&c", library="x" * 80),
    ],
    ids=["one row", "one rank", "barrier", "only a minimum", "long names"],
)
def test_little_is_drawn_too(browser: Browser, tmp_path: Path, lone: dict[str, Any]) -> None:
    with shown(browser, tmp_path, {"bench": record(lone)}) as page:
        assert page.count(".report-table tr[data-point]") == 1 and page.count("#view-report .report-chart") == 2
        assert float(page.run("document.querySelector('.report-charts > svg').getAttribute('height')")) > 100


def test_of_two_rows_of_one_case_the_later_is_drawn(browser: Browser, tmp_path: Path) -> None:
    with shown(browser, tmp_path, {"bench": record(row(8, 1.0), row(64, 2.0), row(8, 3.0))}) as page:
        assert drawn(page, "time-size", "ringtree") == [(8, 3.0), (64, 2.0)]
        assert page.count(".report-table tr[data-point]") == 3


def test_a_barrier_has_no_sizes(browser: Browser, tmp_path: Path) -> None:
    barrier = [row(0, 2.0 * n, collective="barrier", ranks=n, in_place_time_us=1.0 * n) for n in (2, 4)]
    with shown(browser, tmp_path, {"bench": record(*barrier)}) as page:
        assert [x for x, _ in drawn(page, "time-ranks", "ringtree")] == [2, 4]
        assert page.count('[data-chart="time-size"]') == 0
        assert "nothing was measured" in page.text('[data-chart="busbw-ranks"]')


def test_wrong_elements_stand_out(browser: Browser, tmp_path: Path) -> None:
    with shown(browser, tmp_path, {"bench": record(*rows(wrong=0, in_place_wrong=7))}) as page:
        assert page.count(".report-table td.wrong") == 0
        page.click("#report-in_place")
        assert page.count(".report-table td.wrong") == 24 and page.text(".report-table td.wrong") == "7"


def test_predicted_times_are_named_so_and_have_no_measured_columns(browser: Browser, tmp_path: Path) -> None:
    """As of `ringtree sweep`: no side, no minimum, no count of wrong elements."""
    times = [row(n, 1.0 * n, algorithm=name, out_of_place=True) for n in SIZES for name in ("a", "b")]
    predicted = {"machine": {"topology": "dgx-h100", "source": PREDICTED}, "effort": {}, "rows": times}
    with shown(browser, tmp_path, {"sweep": predicted}) as page:
        assert page.text(".report-machine") == "predicted on dgx-h100, not measured"
        heads = page.run("[...document.querySelectorAll('[data-column]')].map(e => e.textContent)")
        assert "Predicted µs" in heads and not {"Median µs", "Minimum µs", "Wrong"} & set(heads)
        assert page.count("#report-median") == page.count("#report-in_place") == 0
        assert page.text(".report-heading").endswith("· all_reduce")
        assert "dgx-h100" in page.text(".report-machines") and PREDICTED in page.text(".report-machines")
    with shown(browser, tmp_path, {"bench": record(*rows()), "sweep": predicted}) as page:
        assert page.count('[data-line="a (predicted)"]') and page.count("#report-median")
