"""Sizes on a command line."""

from __future__ import annotations

from argparse import Namespace

import pytest

from ringtree.cli.arguments.byte_sizes import byte_sizes, listed_sizes, parse_bytes, sizes, sizes_of


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
def test_a_wrong_size_gets_one_line(text: str) -> None:
    with pytest.raises(ValueError, match="--bytes") as refusal:
        byte_sizes(text)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("8", 8), ("4K", 4096), ("64M", 64 << 20), ("1G", 1 << 30), ("1.5k", 1536), ("2MiB", 2 << 20), ("1T", 1 << 40)],
)
def test_sizes_are_read_in_binary_units(text: str, nbytes: int) -> None:
    assert parse_bytes(text) == nbytes


@pytest.mark.parametrize("text", ["", "-8", "8X", "M", "one"])
def test_wrong_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a size: expected"):
        parse_bytes(text)


def test_a_sweep_multiplies_or_steps() -> None:
    assert sizes(8, 64 << 20, factor=8) == [8 * 8**i for i in range(8)]
    assert sizes(10, 40, step=10) == [10, 20, 30, 40]
    assert sizes(1, 3, factor=1.1) == [1, 2, 3]
    assert len(sizes(1, 4096, step=1)) == 4096


@pytest.mark.parametrize(
    ("first", "last", "how", "expected"),
    [
        (0, 8, {}, "-b of at least 1"),
        (16, 8, {}, "-e not below"),
        (8, 16, {"factor": 1.0}, "a factor over 1"),
        (8, 16, {"step": 0}, "at least 1 byte"),
        (8, 16, {"factor": 2.0, "step": 8}, "not both"),
        (1, 1 << 40, {"step": 1}, "-i 1: more than 4096 sizes from 1 to .* a larger step"),
        (1, 1 << 50, {"factor": 1.001}, "-f 1.001: more than 4096 sizes from 1 to .* a larger factor"),
    ],
)
def test_a_sweep_that_never_ends_is_refused(first: int, last: int, how: dict[str, float], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        sizes(first, last, **how)  # type: ignore[arg-type]


ENDS = {"bytes": None, "minbytes": None, "maxbytes": None, "stepfactor": None}


def test_a_barrier_has_the_size_0() -> None:
    assert sizes_of(Namespace(collective="barrier", **ENDS), ("8", "64", 2.0)) == [0] == listed_sizes(None, "barrier")
    assert sizes_of(Namespace(collective="scan", **ENDS), ("8", "16", 2.0)) == [8, 16]
    with pytest.raises(ValueError, match="required: --bytes"):
        listed_sizes(None, "scan")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"bytes": "8"}, "--bytes: a barrier moves no data; leave it out"),
        ({"maxbytes": "8"}, "-e/--maxbytes: a barrier moves no data"),
        ({"stepfactor": 2.0}, "-f/--stepfactor: a barrier moves no data"),
    ],
)
def test_sizes_of_a_barrier_are_refused(given: dict[str, object], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        sizes_of(Namespace(collective="barrier", **ENDS | given), ("8", "64", 2.0))
