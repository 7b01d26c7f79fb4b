"""The page of `ringtree doctor`, in a browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ringtree.pages.doctor_page import MOST_HOSTS, doctor_page
from tests.pages.browser.driver import Browser, Page

USUAL_BPS, SLOW_BPS = 1e9, 5e7


def row(section: str, name: str, state: str = "ok", *remedies: str) -> dict[str, Any]:
    words = {"section": section, "name": name, "state": state, "found": f"words on {name}"}
    return {**words, "remedies": list(remedies), "figures": {"soft": 1, "hard": None}}


def way(source: int, target: int) -> dict[str, Any] | None:
    if source == target:
        return None
    addresses = {"address": f"10.0.0.{source}", "peer_address": f"10.0.0.{target}"}
    return {
        "interface": "eth0",
        **addresses,
        "path_mtu_bytes": 1500,
        "sent_segments": 10,
        "retransmitted_segments": 0,
    }


def result(hosts: int = 3, **other: Any) -> dict[str, Any]:
    """As `ringtree doctor --json` prints it; the last host sends slowly."""
    each = range(hosts)
    rates = [[None if i == j else SLOW_BPS if i == hosts - 1 else USUAL_BPS for j in each] for i in each]
    times = [[None if i == j else 3e-5 for j in each] for i in each]
    checks = [row("software", "python"), row("settings", "tune", "note", "ringtree tune")]
    return {
        "form": 1,
        "problems": 1,
        "notes": 1,
        "hosts": [
            {"host": n, "name": f"lab{n}", "ranks": [n], "checks": checks if n < 2 else checks[:1]} for n in each
        ],
        "findings": [row("hosts", "slow host", "problem")],
        "links": {
            "latency_s": times,
            "bandwidth_Bps": rates,
            "ways": [[way(i, j) for j in each] for i in each],
            "pair_budget_s": 1.5,
            "took_s": 6.0,
        },
        **other,
    }


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    path = tmp_path / "doctor.html"
    path.write_text(doctor_page(result()), encoding="utf-8")
    with browser.open(path) as page:
        yield page


def texts(page: Page, selector: str) -> list[str]:
    return list(page.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)"))


def test_what_is_wrong_comes_first(page: Page) -> None:
    assert texts(page, ".doctor-fact b") == ["1", "1", "3"]
    assert texts(page, "[data-part=between] tr[data-name] td") == ["✗ problem", "words on slow host"]
    parts = page.run("[...document.querySelectorAll('.doctor-part')].map(e => e.dataset.part)")
    assert parts == ["between", "links", "hosts"]


def test_slow_links_stand_out(page: Page) -> None:
    assert texts(page, ".doctor-matrix tbody tr:last-child td") == ["50 MB/s", "50 MB/s", "–"]
    slow = page.run("[...document.querySelectorAll('[data-slow=yes]')].map(e => e.dataset.from)")
    assert slow == ["2", "2"]
    title = page.run('document.querySelector(\'[data-from="0"][data-to="1"]\').title')
    assert title == "lab0 → lab1\neth0 10.0.0.0 → 10.0.0.1"
    page.press("m")
    assert texts(page, ".doctor-matrix tbody tr:first-child td") == ["–", "30 µs", "30 µs"]
    page.click("#doctor-bandwidth")
    assert texts(page, ".doctor-matrix tbody tr:first-child td")[1] == "1 GB/s"


def test_each_hosts_rows_and_those_that_are_wrong(page: Page) -> None:
    rows = "[data-part=hosts] tr[data-name] th"
    assert texts(page, rows) == ["python", "tune"]
    assert texts(page, "[data-part=hosts] code") == ["ringtree tune"]
    page.press("a")
    assert texts(page, rows) == ["tune"]
    page.click("#doctor-host-2")
    assert texts(page, rows) == [] and page.text("[data-part=hosts] .doctor-note") == "No note and no problem."
    page.press("ArrowRight")
    assert texts(page, rows) == ["tune"]


def test_a_host_alone_has_no_links(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "doctor.html"
    path.write_text(doctor_page(result(1, findings=[], links=None)), encoding="utf-8")
    with browser.open(path) as page:
        assert page.count(".doctor-matrix") == 0 and page.count(".doctor-part") == 1


def test_too_many_hosts_for_a_browser_are_refused() -> None:
    with pytest.raises(ValueError, match=f"257 hosts: too many for a page: expected at most {MOST_HOSTS}"):
        doctor_page({"hosts": [{"name": "a"}] * 257})
