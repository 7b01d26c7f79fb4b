"""The page as a file: everything in it, nothing fetched, every word in both languages, and the schedule whole."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ringtree import pages
from ringtree.algorithms import build, pairs
from ringtree.ir.schedule import COLUMNS, Block, Schedule, Transfers
from ringtree.pages.schedule_page import schedule_page
from ringtree.topology import cluster

TEXTS: dict[str, list[str]] = json.loads((pages.FOLDER / "texts.json").read_text(encoding="utf-8"))
SECTIONS = {"shell", *pages.VIEWS}


def decode(column: Any, length: int) -> NDArray[Any]:
    if isinstance(column, int | float):
        return np.full(length, column)
    return np.frombuffer(b64decode(column["base64"]), dtype=np.dtype(column["type"]).newbyteorder("<"))


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def own(*suffixes: str) -> list[tuple[str, str]]:
    """The page's own files as (name, text)."""
    paths = sorted(p for p in pages.FOLDER.rglob("*.*") if p.suffix in suffixes and not p.name.startswith("d3."))
    return [(str(p.relative_to(pages.FOLDER)), p.read_text(encoding="utf-8")) for p in paths]


NUMBERS = st.lists(st.integers(-(2**53), 2**53)) | st.lists(st.floats(allow_nan=False, allow_infinity=False))


@given(NUMBERS.map(np.array) | st.lists(st.booleans()).map(np.array))
def test_a_column_is_read_as_it_was(array: NDArray[Any]) -> None:
    column = json.loads(json.dumps(pages.encode(array)))
    assert np.array_equal(decode(column, len(array)), array)


def test_a_column_is_as_narrow_as_it_goes() -> None:
    tops = {127: "int8", 128: "int16", 2**15: "int32", 2**31: "float64"}
    assert {top: pages.encode(np.array([0, top]))["type"] for top in tops} == tops  # type: ignore[index]
    assert pages.encode(np.full(9, 3)) == 3


@pytest.mark.parametrize(("name", "collective"), pairs())
def test_the_page_has_the_schedule_whole(name: str, collective: str) -> None:
    s = build(name, collective, 6)
    data = data_of(schedule_page(s))["data"]["schedule"]
    n = data["transfers"]
    *numbers, reduce = (decode(data["columns"][c], n) for c in COLUMNS)
    rows = Transfers(*(c.astype(np.int32) for c in numbers), reduce=reduce.astype(np.bool_))
    head = [data[key] for key in ("name", "collective", "ranks", "chunks")]
    assert Schedule(*head, (Block(rows),), data["root"], data["scratch"], data["switches"]) == s
    promise, first = data["promise"], 0
    for rank in range(s.ranks):
        held, owed = s.promise.precondition(rank, 6, s.chunks, 0), s.promise.postcondition(rank, 6, s.chunks, 0)
        at = [int(decode(promise[key], 6)[rank]) for key in ("heldStart", "heldCount", "owedStart", "owedCount")]
        assert at == [held.start, len(held), owed.start, len(owed)]
        _, label, origin = s.promise.promised(rank, 6, s.chunks, 0)
        for key, column in (("label", label), ("origin", origin)):
            total = sum(decode(promise["owedCount"], 6))
            assert np.array_equal(decode(promise[key], total)[first : first + len(owed)], column)
        first += len(owed)


class Fetches(HTMLParser):
    """What a browser would fetch for this page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [v or "" for k, v in attrs if k in ("src", "href", "srcset", "data", "action") and v != "data:,"]


def test_the_page_is_small_and_fetches_nothing() -> None:
    text = schedule_page(build("ring", "all_reduce", 4))
    fetches = Fetches()
    fetches.feed(text)
    assert fetches.found == []
    for name, source in own(".js", ".css", ".html"):
        addresses = set(re.findall(r"https?://[\w./]+", source)) - {"http://www.w3.org/2000/svg"}
        assert not addresses and not re.search(r"\bimport\b|@import|url\((?!#)|fetch\(|XMLHttpRequest", source), name
    assert len(pages.assemble("all", list(pages.VIEWS), {}).encode()) < 1_000_000
    assert "Permission to use, copy, modify" in text, "d3's licence goes with every copy of it"


def test_a_topology_may_have_further_ranks() -> None:
    s = build("ring", "all_reduce", 3)
    for ranks in (4, 8):
        assert data_of(schedule_page(s, cluster(ranks // 2, 2)))["data"]["schedule"]["hosts"] == [0, 0, 1]
    with pytest.raises(ValueError, match="ring is for 3 ranks; expected at most the 2 of cluster 1x2"):
        schedule_page(s, cluster(1, 2))


def test_hostile_names_stay_words() -> None:
    name = "</script><script>alert(1)</script><!--<b>&amp;${x}"
    s = build("ring", "all_reduce", 2)
    text = schedule_page(Schedule(name, s.collective, s.ranks, s.chunks, s.blocks))
    assert data_of(text)["data"]["schedule"]["name"] == name
    assert "<script>alert" not in text and "<b>" not in text


LABELS = [
    "</script><script>alert(1)</script>",
    "</SCRIPT ><img src=x onerror=alert(1)>",
    "<!--<script>",
    "-->",
    "]]><svg onload=alert(1)>",
    "\u2028alert(1)\u2029",
    '"}]};alert(1);//',
    "${data}$data$$",
    "\\u003c/script>",
    "javascript:alert(1)",
]
"""What a file or a program may have for a name."""


class Elements(HTMLParser):
    """A page's elements with their attributes, and the text of the one with the data."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.data = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        if self.found and ("id", "data") in self.found[-1][1]:
            self.data += data


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("view", pages.VIEWS)
def test_what_stands_in_a_label_is_no_element_of_a_page(view: str, label: str) -> None:
    """All pages are assembled in one place: whatever their data is, a browser makes the same elements of them."""
    plain = Elements(pages.assemble("name", [view], {view: {"name": "name", "name2": ["name"]}}))
    page = Elements(pages.assemble(label, [view], {view: {"name": label, label: [label]}}))
    assert page.found == plain.found
    assert json.loads(page.data)["data"] == {view: {"name": label, label: [label]}}


def test_scripts_make_no_elements_of_labels() -> None:
    """Markup is set from constants of the scripts alone, and no text is run: labels become text nodes."""
    runs = r"\beval\(|new Function|document\.write|insertAdjacentHTML|outerHTML|\.html\(|srcdoc"
    runs += r"|setTimeout\(['\"`]|\.on\w+ ?= ?['\"`]"
    for name, source in own(".js"):
        assert not re.search(runs, source), name
        for made in re.findall(r"innerHTML\s*=\s*(.+)", source):
            assert re.fullmatch(r"MARKUP;|icon\([\w ?':]+\);", made), f"{name}: {made}"


def test_every_word_is_in_both_languages_and_in_use() -> None:
    quoted = re.compile(rf"""(?<=['"])(?:{"|".join(SECTIONS)})\.(?!html|js|css)\w+(?=['"])""")
    used = {f"{view}.name" for view in pages.VIEWS}  # the tabs
    for _, source in own(".js", ".html", ".py"):
        used |= set(quoted.findall(source))
    assert used == set(TEXTS)
    for key, words in TEXTS.items():
        assert len(words) == 2 and all(words), key
        asked = [set(re.findall(r"\{(\w+)(?:\|\w+\|\w+)?\}", w)) for w in words]
        assert asked[0] == asked[1], f"{key}: {asked}"


def test_scripts_are_strict_silent_and_short() -> None:
    for name, source in own(".js"):
        assert source.startswith("'use strict';\n"), name
        assert "console." not in source and "</script" not in source, name
        lines = source.splitlines()
        assert len(lines) <= 400 and max(map(len, lines)) <= 120, name


def test_the_scripts_listed_are_those_there_are() -> None:
    for view, names in pages.VIEWS.items():
        assert sorted(names) == sorted(p.stem for p in (pages.FOLDER / view).glob("*.js")), view
        assert (pages.FOLDER / view / "tsconfig.json").is_file(), f"{view} is not type-checked"
    assert sorted(pages.SCRIPTS) == sorted(p.name.removesuffix(".js") for p in pages.FOLDER.glob("*.js"))


def code(*names: str) -> str:
    """These scripts, a line a line, without comments."""
    text = "\n".join((pages.FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in names)
    return re.sub(r"/\*.*?\*/|(?<!\S)//[^\n]*", "", text, flags=re.DOTALL)


SHELL = tuple(name for name in pages.SCRIPTS if not name.startswith("d3"))
NAMED = re.compile(r"^(?:const|let|class|(?:async )?function) (\w+)|^  (?:static |get |async )?(\w+)(?: =|\()", re.M)
RETURNED = re.compile(r"^const (\w+) = \(\(\) => \{\n.*?^  return \{([^}]*)\};\n\}\)\(\);", re.M | re.S)


def unused(text: str, among: str) -> set[str]:
    """The names of `text` that nothing `among` these scripts asks for. What tsc and the linter do not see: what stands
    for other scripts to use, and members of classes."""
    names = {a or b for a, b in NAMED.findall(text)}
    found = {name for name in names if len(re.findall(rf"\b{name}\b", among)) < 2}
    for owner, names_of in RETURNED.findall(text):
        for name in re.findall(r"\w+", names_of):
            if not re.search(rf"\b{owner}\.{name}\b|\{{[^{{}}]*\b{name}\b[^{{}}]*\}} = {owner}\b", among):
                found.add(f"{owner}.{name}")
    return found


@pytest.mark.parametrize("view", pages.VIEWS)
def test_no_name_of_a_view_is_left_unused(view: str) -> None:
    own = code(*(f"{view}/{name}" for name in pages.VIEWS[view]))
    assert not unused(own, code(*SHELL) + own)


def test_no_name_that_the_views_share_is_left_unused() -> None:
    every = code(*SHELL, *(f"{view}/{name}" for view, names in pages.VIEWS.items() for name in names))
    by_hand = {"ringtree.start", "ringtree.shell", "ringtree.stats"}  # shell.html, the type Shell, and what tests read
    assert unused(code(*SHELL), every) == by_hand


@pytest.mark.parametrize(("ranks", "chunks"), [(1500, 1), (64, 1 << 24)])
def test_schedules_too_large_for_a_browser_are_refused(ranks: int, chunks: int) -> None:
    rows = Transfers.of(np.arange(ranks).repeat(ranks), np.tile(np.arange(ranks), ranks))
    with pytest.raises(ValueError, match=r"^dense all_reduce: too large for a page: .*: take fewer ranks$"):
        schedule_page(Schedule("dense", "all_reduce", ranks, chunks, (Block(rows),)))
