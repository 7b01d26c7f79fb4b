"""The schedule's view has Python's state after every round; tips, layouts and traces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ringtree.algorithms import build
from ringtree.ir.collective import REDUCED
from ringtree.ir.contents import Contents, rounds
from ringtree.ir.moves import Moves
from ringtree.ir.schedule import Buffer, Schedule
from ringtree.ir.text import parse_schedule
from ringtree.pages.schedule_page import schedule_page
from ringtree.topology.shapes import cluster
from tests.pages.browser.driver import Browser, Page
from tests.pages.traces import ring

Cell = tuple[str, int, int, str, str, str]
"""Of a cell that holds something whole: buffer, rank, chunk, label, origins, and whether it is as promised."""

VIEW = "document.querySelector('.view-schedule')"
CELLS = """[...document.querySelectorAll('#contents td')].map(({dataset: d}) =>
    [d.buffer, Number(d.rank), Number(d.chunk), d.position, d.origins, d.state])"""

WRONG = "schedule mine all_reduce: 3 ranks, 1 chunks\nonce: 0 data[0] +> 1; 1 data[0] +> 2; 2 data[0] -> 0"
TWICE = (
    "schedule mine all_reduce: 2 ranks, 2 chunks\nonce: 0 data[0] +> 1\nonce: 0 data[0] +> 1; 0 data[0] +> 1 data[1]"
)
WINDOWS = (
    "schedule mine all_gather: 2 ranks, 2 chunks, 1 scratch\nonce: r input[0] -> r output[r]; r input[0] -> r+1 "
    "scratch[0]\nonce: 0 scratch[0] -> 0 output[1]; 1 scratch[0] -> 1 output[0]"
)


def written(folder: Path, *given: Any) -> Path:
    path = folder / "schedule.html"
    path.write_text(schedule_page(*given), encoding="utf-8")
    return path


@pytest.fixture
def ring4(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    with browser.open(written(tmp_path, build("ring", "all_reduce", 4))) as page:
        yield page


def fact(page: Page, name: str) -> str:
    return str(page.run(f"{VIEW}.dataset.{name}"))


def at_round(page: Page, done: int) -> None:
    page.wait(f"{VIEW}.dataset.round === '{done}' && {VIEW}.dataset.state !== 'playing'")


def seek(page: Page, position: float) -> None:
    page.run(
        f"((e) => {{ e.value = {position}; e.dispatchEvent(new Event('input')); }})({VIEW}.querySelector('#scrub'))"
    )


def contents(page: Page) -> set[Cell]:
    return {tuple(cell) for cell in page.run(CELLS) if cell[4]}


def expected(s: Schedule) -> list[set[Cell]]:
    """The same after each round that moves anything, played in Python; the start first."""
    moves = Moves.of(s)
    layout, state, wanted = moves.layout, Contents.at_start(s, moves.layout), promised(s)

    def seen() -> set[Cell]:
        found = set()
        for buffer in Buffer:
            for rank in range(s.participants):
                for chunk in range(int(layout.length[buffer, rank])):
                    label, origins = state.read(s, int(layout.first[buffer, rank]) + chunk)
                    holds = (buffer.name.lower(), rank, chunk, str(label), ",".join(map(str, origins)))
                    if label >= 0:
                        found.add((*holds, "right" if holds in wanted else "some"))
        return found

    return [seen(), *(seen() for _ in rounds(moves, state, s.promise.repeats))]


def promised(s: Schedule) -> set[tuple[str, int, int, str, str]]:
    found = set()
    for rank in range(s.ranks):
        everyone = ",".join(map(str, s.promise.contributors(rank, s.ranks)))
        columns = s.promise.promised(rank, s.ranks, s.chunks, s.root or 0)
        for k, (position, label, origin) in enumerate(zip(*columns, strict=True)):
            where = ("data", rank, int(position)) if s.in_place else ("output", rank, k)
            found.add((*where, str(label), everyone if origin == REDUCED else str(origin)))
    return found


@pytest.mark.parametrize(
    "s",
    [
        build("ring", "reduce_scatter", 3),
        build("double_tree", "all_reduce", 5),
        build("bruck", "all_to_all", 5),
        build("inorder_tree", "exscan", 6),
        build("dissemination", "barrier", 5),
        build("recursive_doubling", "all_reduce", 37),
        *map(parse_schedule, (WRONG, TWICE, WINDOWS)),
    ],
    ids=lambda s: f"{s.name} {s.collective}",
)
def test_the_page_has_pythons_state_after_every_round(browser: Browser, tmp_path: Path, s: Schedule) -> None:
    with browser.open(written(tmp_path, s), reducedMotion="reduce") as page:
        played = expected(s)
        for done, want in enumerate(played):
            at_round(page, done)
            if len(want) > 1024:
                page.run("new Promise(done => setTimeout(done, 300))")  # a large table is written when nothing moves
            assert contents(page) == want, f"after {done} rounds"
            page.press("ArrowRight")
        for done in range(len(played) - 2, -1, -1):
            page.press("ArrowLeft")
            assert fact(page, "round") == str(done)
        assert contents(page) == played[0] or len(played[0]) > 1024


def test_table_and_picture_point_at_each_other(ring4: Page) -> None:
    seek(ring4, 2.5)
    ring4.hover("#transfers .row[data-row='9']")
    assert ring4.run(f"{VIEW}.querySelector('.pointed').dataset.row") == "9"
    x, y = ring4.run(
        "(({left, top, width, height}) => [left + width / 2, top + height / 2])"
        "(document.querySelector('#stage').getBoundingClientRect())"
    )
    found = set()
    for far in range(40, 400, 6):  # to the right from the middle, until rank 0's way to rank 1 is met
        ring4.call("mouse.move", x + far * 0.7, y - far * 0.7)
        found.add(ring4.run(f"{VIEW}.querySelector('.pointed')?.dataset.row"))
        if "8" in found:
            break
    assert "8" in found
    assert ring4.text("#tooltip").startswith("round 2: rank 0 → rank 1, chunk ")
    seek(ring4, 0)
    ring4.click("#transfers .row[data-row='3']")
    assert ring4.text("#caption") == "Round 0: 4 transfers"


def test_a_cell_names_its_contributions(ring4: Page) -> None:
    seek(ring4, 2)
    ring4.run("document.querySelector('#buffers').focus()")
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown"):
        ring4.press(key)
    assert fact(ring4, "round") == "2"
    assert ring4.text("#tooltip") == "rank 1, chunk 2: sum of chunk 2 of ranks 0, 1, 3 (missing 2)"


def test_the_layouts_that_there_are(browser: Browser, tmp_path: Path) -> None:
    def layouts(*given: Any) -> list[str]:
        with browser.open(written(tmp_path, *given)) as page:
            offered = page.run(f"[...{VIEW}.querySelectorAll('#layouts button')].map(b => b.dataset.layout)")
            for name in [*offered[1:], offered[0]]:
                page.press("l")
                assert fact(page, "layout") == name
            return [str(name) for name in offered]

    assert layouts(build("ring", "all_reduce", 5)) == ["ring", "grid"]
    assert layouts(build("torus", "all_reduce", 6)) == ["grid", "ring"]
    assert layouts(build("double_tree", "all_reduce", 8)) == ["trees", "ring", "grid"]
    assert layouts(build("ring", "all_reduce", 4), cluster(2, 2)) == ["hosts", "ring", "grid"]


def test_traces_are_a_second_view(browser: Browser, tmp_path: Path) -> None:
    with browser.open(written(tmp_path, build("ring", "all_reduce", 4), None, [ring(4, 12)])) as page:
        page.click("#tab-trace")
        assert page.run("[...document.querySelectorAll('.view')].map(e => e.hidden)") == [True, False]
