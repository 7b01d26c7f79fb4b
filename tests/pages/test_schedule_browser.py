"""The page of a schedule in a browser: played to its end it holds the postcondition; and its buttons."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ringtree.algorithms import build
from ringtree.ir.schedule import Schedule
from ringtree.pages.schedule_page import schedule_page
from ringtree.transform import pipeline
from tests.pages.browser.driver import Browser, Page

VIEW = "document.querySelector('#view-schedule')"
Contents = dict[tuple[int, int], set[int]]


def shown(browser: Browser, folder: Path, schedule: Schedule, **options: Any) -> AbstractContextManager[Page]:
    path = folder / "schedule.html"
    path.write_text(schedule_page(schedule), encoding="utf-8")
    return browser.open(path, **options)


@pytest.fixture
def ring(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    with shown(browser, tmp_path, build("ring", "all_reduce", 4)) as page:
        yield page


def state(page: Page) -> tuple[int, str]:
    """(rounds done, playing, paused or end)"""
    done, how = page.run(f"[{VIEW}.dataset.round, {VIEW}.dataset.state]")
    return int(done), how


def contents(page: Page) -> Contents:
    """Whose contributions are in which chunk of which rank."""
    read = "e => [e.dataset.rank, e.dataset.chunk, e.dataset.origins]"
    cells = page.run(f"[...document.querySelectorAll('#contents [data-origins]')].map({read})")
    return {(int(rank), int(chunk)): set(map(int, filter(None, who.split(",")))) for rank, chunk, who in cells}


def play_to_the_end(page: Page) -> None:
    for _ in range(10):
        page.click("#faster")
    page.click("#play")
    page.wait(f"{VIEW}.dataset.state === 'end'")


@pytest.mark.parametrize(("name", "ranks"), [("ring", 4), ("double_tree", 8)])
def test_played_to_the_end_every_rank_has_everything(browser: Browser, tmp_path: Path, name: str, ranks: int) -> None:
    s = build(name, "all_reduce", ranks)
    with shown(browser, tmp_path, s) as page:
        assert contents(page) == {(rank, chunk): {rank} for rank in range(ranks) for chunk in range(s.chunks)}
        play_to_the_end(page)
        assert state(page) == (s.rounds, "end")
        everyone = {(rank, chunk): set(range(ranks)) for rank in range(ranks) for chunk in range(s.chunks)}
        assert contents(page) == everyone
        assert "Every rank has what all_reduce promises" in page.text("#verdict")
        page.click("#back")
        assert state(page) == (s.rounds - 1, "paused")
        assert contents(page) != everyone and page.run("document.querySelector('#verdict').hidden")


def test_each_step_is_the_schedules_and_back_undoes_it(ring: Page) -> None:
    """After round k of reduce-scatter each rank has one chunk with k + 2 contributions."""
    seen = [contents(ring)]
    for k in range(3):
        ring.press("ArrowRight")
        ring.wait(f"{VIEW}.dataset.round === '{k + 1}' && {VIEW}.dataset.state !== 'playing'")
        seen.append(contents(ring))
        assert [max(len(who) for (r, _), who in seen[-1].items() if r == rank) for rank in range(4)] == [k + 2] * 4
    for before in reversed(seen[:-1]):
        ring.click("#back")
        assert contents(ring) == before
    ring.press("End")
    assert state(ring)[1] == "end" and contents(ring)[0, 0] == {0, 1, 2, 3}
    ring.press("Home")
    assert contents(ring) == seen[0] and state(ring) == (0, "paused")


def test_playing_stops_and_goes_on(ring: Page) -> None:
    ring.press(" ")
    ring.wait(f"{VIEW}.dataset.state === 'playing' && {VIEW}.dataset.round === '1'")
    ring.press(" ")
    done, how = state(ring)
    assert how == "paused" and 1 <= done < 6
    ring.run("(s => { s.value = 4.5; s.dispatchEvent(new Event('input')); })(document.querySelector('#scrub'))")
    assert state(ring) == (4, "paused")


def test_a_wrong_schedule_is_marked_wrong(browser: Browser, tmp_path: Path) -> None:
    s = build("ring", "all_reduce", 4)
    wrong = Schedule(s.name, s.collective, s.ranks, s.chunks, s.blocks[:1])
    with shown(browser, tmp_path, wrong) as page:
        page.press("End")
        assert page.run("document.querySelector('#verdict').dataset.right") == "false"


def test_the_language_switches_and_back(ring: Page) -> None:
    before = ring.text("#views")
    ring.click("#language")
    there = ring.text("#views")
    assert "环" in there and "Ring" not in there and ring.run("document.documentElement.lang") == "zh-CN"
    ring.click("#language")
    assert ring.text("#views") == before


def test_light_and_dark(ring: Page) -> None:
    def page_colour() -> str:
        return str(ring.run("getComputedStyle(document.body).backgroundColor"))

    light = page_colour()
    ring.press("d")
    assert ring.run("document.documentElement.dataset.theme") == "dark" and page_colour() != light
    ring.click("#theme")
    assert page_colour() == light


@pytest.mark.parametrize(
    ("name", "ranks", "layouts"),
    [("ring", 4, {"ring", "grid"}), ("double_tree", 8, {"ring", "grid", "trees"})],
)
def test_layouts_switch_by_button_and_by_key(
    browser: Browser, tmp_path: Path, name: str, ranks: int, layouts: set[str]
) -> None:
    with shown(browser, tmp_path, build(name, "all_reduce", ranks)) as page:
        seen = {page.run(f"{VIEW}.dataset.layout")}
        for layout in layouts:
            page.click(f"#layouts [data-layout={layout}]")
            assert page.run(f"{VIEW}.dataset.layout") == layout
        for _ in layouts:
            page.press("l")
            seen.add(page.run(f"{VIEW}.dataset.layout"))
        assert seen == layouts


def test_the_picture_is_saved(browser: Browser, tmp_path: Path) -> None:
    with shown(browser, tmp_path, build("double_tree", "all_reduce", 8)) as page:
        name, picture = page.download("#export-svg")
        root = ElementTree.fromstring(picture)
        assert name.endswith(".svg") and root.tag == "{http://www.w3.org/2000/svg}svg"
        words = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
        assert {str(rank) for rank in range(8)} <= words and b"var(" not in picture
        name, picture = page.download("#export-png")
        assert name.endswith(".png") and picture.startswith(b"\x89PNG")


def test_chunks_that_lie_on_each_other_have_one_label(browser: Browser, tmp_path: Path) -> None:
    with shown(browser, tmp_path, build("bruck", "all_to_all", 8)) as page:
        for key in ("Home", "End"):
            page.press(key)
            _, picture = page.download("#export-svg")
            texts = ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")
            bold = [(text.get("x"), text.get("y")) for text in texts if text.get("font-size") == "11"]
            assert len(bold) == len(set(bold)) > 8


def test_a_moving_chunk_leaves_nothing_behind(browser: Browser, tmp_path: Path) -> None:
    lowest = """(canvas => {
        const {data} = canvas.getContext('2d').getImageData(0, canvas.height - 10, canvas.width, 10);
        return data.some(Boolean);
    })(document.querySelector('#stage'))"""
    small = {"width": 900, "height": 800}  # where all is drawn smaller
    with shown(browser, tmp_path, build("bruck", "all_to_all", 8), viewport=small) as page:
        page.press("ArrowRight")
        page.wait(f"{VIEW}.dataset.round === '1' && {VIEW}.dataset.state === 'paused'")
        assert not page.run(lowest)


def test_help_names_the_keys(ring: Page) -> None:
    ring.press("?")
    assert "Help and keys" in ring.text("#help-dialog")
    ring.click("#help-close")
    assert not ring.run("document.querySelector('#help-dialog').open")


@pytest.mark.parametrize("transfers", [25_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_frame_of_many_transfers_costs_as_much_as_its_round(browser: Browser, tmp_path: Path, transfers: int) -> None:
    s = build("ring", "all_reduce", 64)
    s = pipeline(s, transfers // s.transfers + 1)
    assert s.transfers > transfers
    with shown(browser, tmp_path, s) as page:
        page.count_strokes()
        page.click("#play")
        page.wait("ringtree.stats.frames_ms.length >= 40")
        assert page.run("strokes / ringtree.stats.frames_ms.length") < 20_000, "calls of a canvas in a frame"
        page.press("End")
        assert (
            state(page) == (s.rounds, "end") and page.run("document.querySelector('#verdict').dataset.right") == "true"
        )
