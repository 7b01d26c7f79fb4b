"""The page of a run of training, in a browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ringtree.draw.step_picture import DrawnCall, step_picture
from ringtree.ir.trace import Event, Trace
from ringtree.pages.train_page import train_page
from tests.pages.browser.driver import Browser, Page

TRACE = Trace.of(
    4,
    [0, 2, 1, 3],
    [Event.SEND, Event.WAIT, Event.SEND, Event.WAIT],
    [0.0, 0.0, 0.0, 0.0],
    [0.0, 0.1, 0.0, 0.2],
    nbytes=[60, 60, 40, 40],
    peer=[2, 0, 3, 1],
    calls=["all_reduce(float32, sum, count 15) by two_shot"],
    facts={"name": "step 9", "source": "measured"},
)

PICTURE = step_picture(
    [[DrawnCall((k,), "all_reduce", (0, 2), 60) for k in range(2)] if r % 2 == 0 else [] for r in range(4)]
)


def share(collective: str, axis: str, work_s: float, wait_s: float) -> dict[str, Any]:
    spent = {"work_s": work_s, "wait_s": wait_s}
    return {"collective": collective, "axis": axis, **spent, "sent_nbytes": 0, "algorithms": []}


def sent(what: str, collective: str, formula: int, counted: int | None, by: str = "", why: str = "") -> dict[str, Any]:
    beside = {"formula_nbytes": formula, "counted_nbytes": counted, "algorithms": [by] if by else [], "why": why}
    return {"whats": [what] if what else [], "collective": collective, "axis": "tp", "ranks": 2, **beside}


def record(**other: Any) -> dict[str, Any]:
    """As `ringtree train --dp 2 --tp 2 --json` writes it."""
    losses = [5.5 - k / 2 for k in range(9)]
    steps = [{"step": k, "loss": y, "seconds": 0.25, "received_nbytes": 2048} for k, y in enumerate(losses, 1)]
    return {
        "ranks": 4,
        "axes": {"pp": 1, "dp": 2, "cp": 1, "ep": 1, "tp": 2},
        "strategies": ["tensor parallel", "data parallel"],
        "groups": [
            {"names": ["dp", "data"], "members": [[0, 2], [1, 3]]},
            {"names": ["tp"], "members": [[0, 1], [2, 3]]},
        ],
        "parameters": 501_952,
        "steps": steps,
        "median_s": 0.25,
        "tokens": 1024,
        "tokens_per_s": 4096.0,
        "traced_s": 0.2,
        "shares": [share("all_reduce", "tp", 0.02, 0.08), share("send", "pp", 0.0, 0.02)],
        "sent": [
            sent("gradients", "all_reduce", 100, 100),
            sent("norms", "all_reduce", 20, 40, "one_shot", "one_shot: fewer steps, more bytes"),
            sent("activations", "send", 10, None),
            sent("", "broadcast", 0, 8),
        ],
        "held": [{"parameters": n, "gradients": 1024, "optimizer_state": 2048} for n in (1024, 3072, 1024, 1024)],
        "formula_nbytes": 130,
        "counted_nbytes": 148,
        **other,
    }


def shown(browser: Browser, folder: Path, **other: Any) -> Any:
    path = folder / "train.html"
    path.write_text(train_page(record(**other), TRACE, PICTURE), encoding="utf-8")
    return browser.open(path)


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    with shown(browser, tmp_path) as page:
        yield page


def data(page: Page, selector: str, name: str) -> list[str]:
    return list(page.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.dataset.{name})"))


def test_the_figures_are_the_records(page: Page) -> None:
    assert page.text('[data-fact="last_loss"]').split("\n") == [
        "1.5000",
        "loss after the last step",
        "from 5.5000, in 9 steps",
    ]
    assert page.text('[data-fact="tokens_per_s"]').startswith("4,096")
    assert page.text('[data-fact="wire"]').startswith("148 B")
    assert page.count(".train-curve circle.step") == 9


def test_the_rank_that_holds_the_most_is_shown(page: Page) -> None:
    lines = page.text('[data-fact="holds"]').split("\n")
    assert (lines[0], lines[-1]) == ("6 KiB", "parameters 3 KiB, gradients 1 KiB, optimizer's state 2 KiB")


def test_the_steps_calls_are_drawn(page: Page) -> None:
    assert page.run("(i => i.decode().then(() => i.naturalWidth))(document.querySelector('.train-picture'))") > 4 * 150


def test_pointing_at_the_curve_shows_the_steps_figures(page: Page) -> None:
    page.hover(".train-curve circle.step:nth-of-type(3)")
    assert page.text(".train-note") == "step 3: loss 4.5000, 250 ms, 2 KiB on the wire"


@pytest.mark.parametrize(
    ("keys", "step"),
    [
        (["ArrowRight"], 1),
        (["ArrowLeft"], 9),
        (["ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"], 2),
        (["Home", "ArrowLeft"], 1),
        (["End", "ArrowRight"], 9),
        (["ArrowRight", "d"], 1),
        (["End", "Escape", "Home", "Tab"], None),
    ],
)
def test_keys_go_along_the_focused_curve(page: Page, keys: list[str], step: int | None) -> None:
    page.call("focus", ".train-curve")
    for key in keys:
        page.press(key)
    note = page.text(".train-note")
    assert note.startswith(f"step {step}: loss {6 - (step or 0) / 2:.4f}, " if step else "Point at the curve"), note
    assert page.run("document.querySelector('.train-curve > .guide').getAttribute('visibility')") == (
        "visible" if step else "hidden"
    )
    assert data(page, '[aria-pressed="true"]', "group") == ["dp"], "the arrows of the curve are not the mesh's"


def test_a_steps_time_is_all_of_it(page: Page) -> None:
    assert [float(x) for x in data(page, ".train-time tbody tr", "work")] == pytest.approx([0.1, 0.0, 0.4])
    assert [float(x) for x in data(page, ".train-time tbody tr", "wait")] == pytest.approx([0.4, 0.1, 0.0])


def test_bytes_that_differ_stand_out(page: Page) -> None:
    texts = page.run("[...document.querySelectorAll('.train-bytes tbody tr')].map(e => e.lastChild.textContent)")
    assert texts == ["✓ equal", "one_shot: fewer steps, more bytes", "–", "✗ not equal", "as above"]
    assert page.text(".train-bytes tbody tr:nth-child(2) td") == "all_reduce (one_shot)"


def test_groups_of_the_chosen_axis_are_distinguished(page: Page) -> None:
    def groups() -> dict[str, str]:
        return dict(zip(data(page, ".rank", "rank"), data(page, ".rank", "group"), strict=True))

    assert groups() == {"0": "0", "1": "1", "2": "0", "3": "1"}
    page.click('[data-group="tp"]')
    assert groups() == {"0": "0", "1": "0", "2": "1", "3": "1"}
    page.press("ArrowRight")
    assert groups()["1"] == "1"


def test_an_axis_keeps_the_focus_when_it_is_chosen(page: Page) -> None:
    page.call("focus", '[data-group="tp"]')
    for key, pressed in (("Enter", "true"), ("ArrowRight", "false"), (" ", "true")):
        page.press(key)
        focused = page.run("[document.activeElement.dataset.group, document.activeElement.ariaPressed]")
        assert focused == ["tp", pressed], key


def test_the_steps_trace_is_the_other_tab(page: Page) -> None:
    page.click("#tab-trace")
    assert page.run("document.querySelector('#view-trace').dataset.events") == "4"
    assert "step 9" in page.text("#view-trace")


def test_outer_axes_are_tables_of_their_own(browser: Browser, tmp_path: Path) -> None:
    axes = {"pp": 2, "dp": 2, "cp": 1, "ep": 1, "tp": 2}
    with shown(browser, tmp_path, ranks=8, axes=axes, groups=[{"names": ["pp"], "members": [[0, 4]]}]) as page:
        captions = page.run("[...document.querySelectorAll('.train-mesh caption')].map(e => e.textContent)")
        assert captions == ["pp 0", "pp 1"]
        assert data(page, ".rank", "rank") == [str(rank) for rank in range(8)]


def test_one_rank_and_a_loss_beyond_numbers(browser: Browser, tmp_path: Path) -> None:
    steps = [{"step": 1, "loss": "inf", "seconds": 0.1, "received_nbytes": 0}]
    alone = {"ranks": 1, "axes": {"dp": 1}, "groups": [], "strategies": [], "shares": [], "sent": [], "steps": steps}
    with shown(browser, tmp_path, **alone) as page:
        assert page.text('[data-fact="last_loss"]').startswith("inf")
        assert page.text(".train-part[data-part=bytes]").endswith("Nothing is sent: there is one rank.")
