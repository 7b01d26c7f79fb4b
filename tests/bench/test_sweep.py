"""Sizes and cases, as nccl-tests would name them."""

from __future__ import annotations

import pytest

from ringtree.bench.sweep import cases, parse_bytes, sizes


@pytest.mark.parametrize(
    ("text", "nbytes"), [("8", 8), ("4K", 4096), ("64M", 64 << 20), ("1G", 1 << 30), ("1.5k", 1536), ("2MiB", 2 << 20)]
)
def test_sizes_are_read_in_binary_units(text: str, nbytes: int) -> None:
    assert parse_bytes(text) == nbytes


@pytest.mark.parametrize("text", ["", "-8", "8X", "M", "one"])
def test_what_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a size: expected"):
        parse_bytes(text)


def test_a_sweep_multiplies_or_steps() -> None:
    assert sizes(8, 64 << 20, factor=8) == [8 * 8**i for i in range(8)]
    assert sizes(10, 40, step=10) == [10, 20, 30, 40]
    assert sizes(1, 3, factor=1.1) == [1, 2, 3]


@pytest.mark.parametrize(
    ("first", "last", "how", "said"),
    [
        (0, 8, {}, "-b of at least 1"),
        (16, 8, {}, "-e not below"),
        (8, 16, {"factor": 1.0}, "a factor over 1"),
        (8, 16, {"step": 0}, "at least 1 byte"),
        (8, 16, {"factor": 2.0, "step": 8}, "not both"),
    ],
)
def test_a_sweep_that_never_ends_is_refused(first: int, last: int, how: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        sizes(first, last, **how)  # type: ignore[arg-type]


def test_size_and_count_are_nccl_tests() -> None:
    """Their count of an all_gather is one rank's part, their size the whole; here a published line, 16 ranks."""
    (case,) = cases("all_gather", 16, [8 << 20], "float32", "sum", 0, "auto")
    assert (case.nbytes, case.elements, case.op, case.root) == (8 << 20, 131_072, "none", -1)
    (case,) = cases("all_reduce", 8, [1024], "float32", "sum", 0, "auto")
    assert (case.nbytes, case.elements, case.op, case.root) == (1024, 256, "sum", -1)


def test_sizes_that_come_to_the_same_are_measured_once() -> None:
    assert [c.nbytes for c in cases("all_gather", 4, [8, 16, 32], "float32", "sum", 0, "auto")] == [16, 32]
    assert [c.nbytes for c in cases("barrier", 4, [8, 16, 32], "float32", "sum", 0, "auto")] == [0]


def test_a_root_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r"root 4: expected one of the 4 ranks, 0\.\.3"):
        list(cases("broadcast", 4, [8], "float32", "sum", 4, "auto"))
