"""Figures in words, as all views have them."""

from __future__ import annotations

from pathlib import Path

from ringtree import pages
from tests.pages.browser.driver import Browser

WORDS = {
    "bytes(0)": "0 B",
    "bytes(1023)": "1023 B",
    "bytes(1440)": "1.41 KiB",
    "bytes(1440, 4)": "1.406 KiB",
    "bytes(2 ** 20 - 1)": "1 MiB",
    "bytes(3 * 2 ** 40)": "3 TiB",
    "time(0)": "0 s",
    "time(3.9e-7)": "390 ns",
    "time(9.996e-4)": "1 ms",
    "time(9.994e-4)": "999 µs",
    "time(9.9994e-4, 4)": "999.9 µs",
    "time(-0.25)": "-250 ms",
    "rate(15.754e9)": "15.8 GB/s",
    "rate(7.2e12)": "7.2 TB/s",
    "lineRate(50e9)": "400 Gb/s",
    "percent(0.0123)": "1.2 %",
    "percent(0.5)": "50 %",
    "percent(0.5, 1)": "50.0 %",
    "moment(1.5e-6, 2e-3, 1e-7)": "0.0015 ms",
    "moment(0, 0)": "0 s",
}


def test_a_figure_has_its_digits_in_the_unit_that_suits_it(browser: Browser, tmp_path: Path) -> None:
    script = (pages.FOLDER / "figures.js").read_text(encoding="utf-8")
    path = tmp_path / "figures.html"
    path.write_text(f"<!doctype html><meta charset=utf-8><title>t</title><script>{script}</script>", encoding="utf-8")
    with browser.open(path) as shown:
        assert {asked: shown.run(f"figures.{asked}") for asked in WORDS} == WORDS
