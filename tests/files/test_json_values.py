"""JSON in bounded memory."""

from __future__ import annotations

import pytest

from ringtree.files import json_values
from ringtree.files.json_values import json_value, shown


@pytest.mark.parametrize(
    ("data", "value"),
    [(b'{"a": [1, null]}', {"a": [1, None]}), ("\ufeff[]".encode(), []), ('"é"'.encode("utf-16"), "é"), ("1", 1)],
)
def test_a_text_is_its_value(data: bytes | str, value: object) -> None:
    assert json_value(data, "x", "a letter") == value


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", r"not JSON \(Expecting property name.*\); expected a letter"),
        (b"\xff\xfe\xff", "not JSON: not text; expected a letter"),
        (b"[" * 100_000, "nested too deeply for JSON; expected a letter"),
        (b"9" * 10_000, "a number has too many digits; expected a letter"),
        (b'"' + b"a" * (1 << 25) + b'"', "33,554,434 bytes; expected a letter, at most 33,554,432 bytes"),
        (b"[" + b"[]," * 2_000_000 + b"[]]", "more than 4,000,000 values; expected a letter"),
        (("[" + "[]," * 2_000_000 + "[]]").encode("utf-16"), "more than 4,000,000 values"),
    ],
    ids=["broken", "bytes", "deep", "digits", "long", "many", "many of two bytes"],
)
def test_another_text_is_refused_in_one_line(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=f"^x: {message}") as error:
        json_value(data, "x", "a letter")
    assert "\n" not in str(error.value)


def test_values_are_counted_before_any_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_values, "MOST_VALUES", 3)
    monkeypatch.setattr(json_values.json, "loads", lambda _: pytest.fail("parsed"))
    with pytest.raises(ValueError, match="more than 3 values"):
        json_value(b"[1, 2, 3, 4]", "x", "a letter")


def test_a_value_is_shown_in_a_few_words() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    assert shown("spam") == "'spam'" and len(shown("x" * 10**6)) <= 40 and len(shown(deep)) <= 40
    assert len(shown({n: n for n in range(10**5)})) <= 40 and shown("\x1b[2J").isprintable()
