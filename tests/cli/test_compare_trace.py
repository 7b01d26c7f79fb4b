"""`ringtree compare-trace`: two files beside each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ringtree.draw.text.comparison import comparison
from ringtree.formats import chrome
from ringtree.ir.trace import Event, Trace
from tests.cli.conftest import Ringtree

REAL = Trace.of(2, [0, 1], [Event.COPY, Event.STALL], 0.0, [1e-6, 2e-6], peer=[-1, 0], facts={"source": "measured"})
SIMULATED = replace(REAL, end_s=REAL.end_s * 1.5, facts={"source": "simulated"})


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    found = []
    for name, trace in (("real", REAL), ("simulated", SIMULATED), ("three", Trace.of(3, 2, Event.COPY, 0, 1))):
        found.append(str(tmp_path / f"{name}.json.gz"))
        chrome.write(trace, found[-1])
    return found


def test_differences_are_printed(ringtree: Ringtree, files: list[str]) -> None:
    got = ringtree("compare-trace", *files[:2])
    assert got == (0, comparison(REAL, SIMULATED) + "\n", "")
    assert "makespan: measured 2 µs, simulated 3 µs; simulated / measured = 1.5" in got.out


def test_mistakes_are_one_line(ringtree: Ringtree, files: list[str], tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("Dear reader")
    for words, expected in (
        ((files[0], files[2]), "traces of 2 and 3 ranks; expected two of as many"),
        ((files[0], str(tmp_path / "absent")), "absent: no such file; expected a trace"),
        ((files[0], str(tmp_path / "letter")), "letter: not JSON"),
        ((files[0],), "required: SIMULATED"),
    ):
        got = ringtree("compare-trace", *words)
        assert got.code in (1, 2) and expected in got.err and len(got.err.splitlines()) == 1 and not got.out


def test_a_page_with_both(ringtree: Ringtree, files: list[str], tmp_path: Path) -> None:
    page = tmp_path / "both.html"
    got = ringtree("compare-trace", *files[:2], "--html", str(page))
    assert got.code == 0 and f"{page}: any browser opens it" in got.out
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    got = ringtree("compare-trace", *files[:2], "--html", str(tmp_path / "absent" / "both.html"))
    assert got.code == 1 and "no such folder to write to" in got.err and not got.out


def test_a_real_run_beside_its_simulation(ringtree: Ringtree, tmp_path: Path) -> None:
    """All the way: measured, simulated with the constants of that measurement, laid beside each other. How long it
    takes is the machine's business; the bytes between ranks are not."""
    real, simulated = str(tmp_path / "real.json.gz"), str(tmp_path / "simulated.json.gz")
    words = ("-n", "2", "-b", "64K", "-e", "64K", "--iters", "1", "--algorithm", "ring", "--trace", real)
    assert ringtree("bench", "all_reduce", *words).code == 0
    words = ("-n", "2", "--bytes", "64K", "--cut", "--topology", f"trace:{real}", "--trace", simulated)
    assert ringtree("simulate", "ring", *words).code == 0
    got = ringtree("compare-trace", real, simulated)
    assert got.code == 0 and "simulated / measured = " in got.out
    assert "bytes per pair of ranks: equal (2 pairs, 128 KiB in all)" in got.out
