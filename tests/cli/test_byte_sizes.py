"""Sizes on a command line."""

import pytest

from ringtree.cli.byte_sizes import byte_sizes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1M", [1 << 20]),
        ("8,64K", [8, 65536]),
        ("8:64", [8, 16, 32, 64]),
        ("8:8K:8", [8, 64, 512, 4096]),
        ("64:64", [64]),
    ],
)
def test_one_a_list_and_a_range(text: str, expected: list[int]) -> None:
    assert byte_sizes(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "8:",
        "8:4",
        "8:64:1",
        "8:64:2:2",
        "8:64:x",
        "x",
        "8,",
        "1:1G:1.000001",
        "-8",
        "8:64:inf",
        "8:64:nan",
        "9" * 400,
        "1:1024G:1.00000001",
    ],
)
def test_what_is_no_size_is_one_line(text: str) -> None:
    with pytest.raises(ValueError, match="--bytes") as refusal:
        byte_sizes(text)
    assert "\n" not in str(refusal.value)
