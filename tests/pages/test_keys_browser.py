"""The letters that the help lists: with Shift or Caps Lock, as the help writes them, they do what the small ones do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ringtree.algorithms import build
from ringtree.machines.clusters import Cluster
from ringtree.pages.doctor_page import doctor_page
from ringtree.pages.machine_page import machine_page
from ringtree.pages.report_page import report_page
from ringtree.pages.schedule_page import schedule_page
from ringtree.pages.trace_page import trace_page
from tests.draw.machines import pair
from tests.draw.test_report import record
from tests.pages.browser.driver import Browser
from tests.pages.test_doctor_browser import result
from tests.pages.test_machine_browser import RING
from tests.pages.test_report_browser import rows
from tests.pages.test_trace_browser import MEASURED, SIMULATED

SHOWN = "JSON.stringify({...document.querySelector('.view:not([hidden])').dataset})"
"""What a page shows, in short."""
THEME = "document.documentElement.dataset.theme"
FIRST_ROW = "document.querySelector('.doctor-matrix tbody tr').textContent"
ROWS = "document.querySelector('[data-part=hosts]').textContent"
WINDOW = f"new Promise(requestAnimationFrame).then(() => {SHOWN})"

PAGES: dict[str, tuple[Callable[[], str], dict[str, str]]] = {
    "report": (lambda: report_page({"bench": record(*rows())}), {"I": SHOWN, "M": SHOWN, "D": THEME}),
    "machine": (lambda: machine_page(Cluster(pair()), (RING,)), {"M": SHOWN, "R": SHOWN, "D": THEME}),
    "doctor": (lambda: doctor_page(result()), {"M": FIRST_ROW, "A": ROWS, "D": THEME}),
    "trace": (lambda: trace_page([MEASURED, SIMULATED]), {"M": SHOWN, "C": SHOWN, "R": SHOWN, "F": WINDOW, "D": THEME}),
    "schedule": (lambda: schedule_page(build("ring", "all_reduce", 4)), {"L": SHOWN, "D": THEME}),
}
"""Each page, and what each of its letters changes."""


@pytest.mark.parametrize("name", PAGES)
def test_a_letter_of_the_help_is_both_its_key_and_its_capital(browser: Browser, tmp_path: Path, name: str) -> None:
    text, letters = PAGES[name]
    path = tmp_path / f"{name}.html"
    path.write_text(text(), encoding="utf-8")
    with browser.open(path) as page:
        page.press("?")
        listed = page.run("[...document.querySelectorAll('#help-keys kbd')].map(e => e.textContent)")
        assert {key for key in listed if len(key) == 1 and key.isalpha()} == set(letters)
        page.press("Escape")
        for letter, changed in letters.items():
            for key in (letter, letter.lower(), f"Shift+{letter}"):
                for prepare in ("Escape", ".", "0") if name == "trace" and letter in "FM" else ():
                    page.press(prepare)  # selects the first event, and shows the whole trace
                before = page.run(changed)
                page.press(key)
                assert page.run(changed) != before, f"{key} changes nothing"
