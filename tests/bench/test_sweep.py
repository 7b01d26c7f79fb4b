"""Cases, as nccl-tests would name them."""

from __future__ import annotations

import pytest

from ringtree.bench.sweep import cases


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
