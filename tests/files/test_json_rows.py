"""A document's long list, line by line where it is written so; the same values in every form."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ringtree.files import file_bytes, json_rows
from ringtree.files.json_rows import JsonRows

MOST = 1 << 30


def by_lines(before: dict[str, Any], rows: list[Any], after: dict[str, Any]) -> str:
    head, tail = json.dumps(before)[1:-1], json.dumps(after)[1:-1]
    lines = ",\n  ".join(map(json.dumps, rows))
    return "{" + head + (", " if head else "") + f'"rows": [\n  {lines}\n]' + (", " if tail else "") + tail + "}"


def read(path: Path, **options: Any) -> tuple[list[Any], Any, int]:
    found: list[Any] = []
    rows, pieces = JsonRows(path, "rows", "a letter", MOST, **options), 0
    for at, elements in rows:
        assert at == len(found)
        found += elements
        pieces += 1
    return found, rows.rest, pieces


ROWS = [{"a": 1, "text": 'a "rows": [ and ] in it'}, [], [[1], 2], "x", None, 3.5]
FORMS = {
    "lines": by_lines({"x": 1}, ROWS, {"y": [2]}),
    "first": by_lines({}, ROWS, {"x": 1, "y": [2]}),
    "last": by_lines({"x": 1, "y": [2]}, ROWS, {}),
    "one line": json.dumps({"x": 1, "rows": ROWS, "y": [2]}),
    "indented": json.dumps({"x": 1, "rows": ROWS, "y": [2]}, indent=2),
    "no space": json.dumps({"x": 1, "rows": ROWS, "y": [2]}, separators=(",", ":")),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
@pytest.mark.parametrize("packed", [False, True])
def test_every_form_has_the_same_values(
    form: str, piece: int, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, data = tmp_path / "x", FORMS[form].encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    monkeypatch.setattr(file_bytes.FileContent.read, "__defaults__", (piece,))
    found, rest, _ = read(path, unpack=packed)
    assert (found, rest) == (ROWS, {"x": 1, "y": [2]})


@pytest.mark.parametrize("rows", [[], [1]])
def test_short_lists(rows: list[Any], tmp_path: Path) -> None:
    (tmp_path / "x").write_text(by_lines({"x": 1}, rows, {}))
    assert read(tmp_path / "x")[:2] == (rows, {"x": 1})


def test_a_long_list_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_text(by_lines({"x": 1}, list(range(400_000)), {"y": 1}))
    monkeypatch.setattr(json_rows, "MOST_BYTES", 1 << 21)  # as a whole it would be refused
    found, rest, pieces = read(tmp_path / "x")
    assert found == list(range(400_000)) and rest == {"x": 1, "y": 1} and pieces > 2


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ('{"x": 1}', {"x": 1}),
        ('{"rows": 7}', {"rows": 7}),
        ("[1]", [1]),
        ('{"x": {"rows": [1]}}', {"x": {"rows": [1]}}),
    ],
)
def test_a_document_without_the_list_is_left_as_it_is(text: str, rest: object, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(text)
    assert read(tmp_path / "x")[:2] == ([], rest)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"rows": [\n1,\n2\n', "rows has no end; expected a letter|not JSON"),
        ('{"rows": [\n1,\n2, 3], [4\n]}', "rows, from 0 on: not JSON"),
        ('{"rows": [\n1,\n]}', "rows, from 0 on: not JSON"),
        ('{"rows": [\n1\n], "rows": 2}', "rows is inside another value"),
        ('{"x": {"rows": [\n1\n]}}', "rows is inside another value"),
        ('{"rows": [\n1\n], "y": }', "not JSON"),
        ('{"rows": [\n' + "1" * (1 << 12), "rows has no end; expected a letter"),
    ],
)
def test_a_broken_document_is_one_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        read(tmp_path / "x")
    assert str(error.value).startswith(f"{tmp_path / 'x'}") and "\n" not in str(error.value)
