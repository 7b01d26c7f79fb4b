"""Rows of nccl-tests' text that share their lines with other output: read where they are whole, else named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.nccl.test_nccl_tests import NEW, log_of

HEAD = "#       size  count  type  redop  root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
FIRST = "1048576 262144 float sum -1    32.14   32.62   57.09      0    32.10   32.67   57.17      0\n"
START = "16777216 4194304 float sum -1"
OUT, IN = "   131.4  127.68  223.44      0", "   130.2  128.86  225.50      0"
INFO = "node1:77:88 [3] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"
BOTH = (131.4e-6, 130.2e-6)


@pytest.mark.parametrize("text", [
    f"{START}{OUT}{IN}{INFO}",
    f"{START}{OUT}{IN}slurmstepd: error: *** STEP 1.0 CANCELLED ***",
    f"{START}{OUT}{IN} x",
    f"{INFO}  {START}{OUT}{IN}",
    f"{START}{INFO}\n{INFO}\n{OUT}{IN}",
    f"{START}   {INFO}\n{OUT}{INFO}\nnode1:1:2 [0] NCCL INFO Channel 00/16 :    0   1   2   3\n{IN}",
    f"{START}{OUT}{INFO}\n{IN}{INFO}",
    f"2024-05-01T10:00:00.1Z {START}{INFO}\n2024-05-01T10:00:00.2Z {OUT}{IN}",
], ids=["behind", "a word", "a blank", "before", "two lines", "three parts", "between", "time stamps"])  # fmt: skip
def test_a_row_is_read_beside_other_output(tmp_path: Path, text: str) -> None:
    log = log_of(tmp_path, f"{HEAD}{FIRST}{text}\n# Avg bus bandwidth    : 301.5\n")
    (_, row) = log.rows
    assert row.times_s == pytest.approx(BOTH) and (row.busbw, row.wrong, row.line) == (225.50, 0, 3)
    assert not any("broken off" in note for note in log.inferred)
    assert log.debug.times("p2p") == text.count("P2P/CUMEM")


def test_wrong_elements_before_other_output_count(tmp_path: Path) -> None:
    log = log_of(tmp_path, f"{HEAD}{FIRST}{START}{OUT[:-1]}5{INFO}\n{IN[:-1]}7{INFO}\n")
    assert (log.rows[1].wrong, log.rows[1].wrong_line) == (12, 3)
    thousands = log_of(tmp_path, f"{HEAD}{START}{OUT[:-1]}1.5e+06{INFO}\n{IN}0{INFO}\n")
    assert thousands.rows[0].wrong == 1_500_000


@pytest.mark.parametrize(("text", "times_s"), [
    (f"{START}{OUT}{INFO}\n", BOTH[:1]),
    (f"{START}{OUT}    13", BOTH[:1]),
    (f"{START}{OUT}    130.2  128.86  22", BOTH[:1]),
    (f"{START}{OUT}\n", BOTH[:1]),
    (f"{START}{INFO}\n{IN}\n", BOTH[1:]),
], ids=["noise", "cut", "cut later", "blank", "one came"])  # fmt: skip
def test_a_sound_side_is_kept_and_the_other_noted(tmp_path: Path, text: str, times_s: tuple[float, ...]) -> None:
    log = log_of(tmp_path, HEAD + FIRST + text)
    assert log.rows[1].times_s == pytest.approx(times_s)
    assert "rows with one of their times broken off, of which the other counts: line 3 (16777216 B)" in log.inferred


@pytest.mark.parametrize("text", [
    f"{START}\n", f"{START}    39", f"{START}    12.{INFO}\n", f"{START}{INFO}\n   1  2  3\n", "16777216 4194304 float",
    "16777216   4194", f"{START}{INFO}\n   131.4  227.68  223.44      0\n",
], ids=["no figures", "cut", "noise in a figure", "other numbers", "type", "count", "another row's"])  # fmt: skip
def test_every_row_that_is_left_out_is_named(tmp_path: Path, text: str) -> None:
    log = log_of(tmp_path, HEAD + FIRST + text)
    assert [row.nbytes for row in log.rows] == [1 << 20]
    assert "rows that are broken off, left out: line 3 (16777216 B)" in log.inferred
    with pytest.raises(ValueError, match=r"any, line 2: the row of 16777216 B is broken off, and no row is whole"):
        log_of(tmp_path, HEAD + text)


def test_of_many_rows_that_are_left_out_the_first_are_named(tmp_path: Path) -> None:
    text = HEAD + FIRST + "".join(f"{n} {n} float sum -1\n" for n in range(1, 31))
    (note,) = (note for note in log_of(tmp_path, text).inferred if "left out" in note)
    assert re.search(r"line 3 \(1 B\), .*line 18 \(16 B\) and 14 more$", note)


def test_a_table_of_one_side_is_whole(tmp_path: Path) -> None:
    log = log_of(tmp_path, f"{HEAD}{START}{OUT}\n33554432 8388608 float sum -1 262.8 127.68 223.44 0\n")
    assert [len(row.times_s) for row in log.rows] == [1, 1] and not any("broken" in note for note in log.inferred)


def test_colours_are_passed_over(tmp_path: Path) -> None:
    plain = log_of(tmp_path, NEW)
    log = log_of(tmp_path, "".join(f"\x1b[0m\x1b[1;32m{line}\x1b[0m\x1b[K\n" for line in NEW.splitlines()))
    assert (log.rows, log.ran, log.collective) == (plain.rows, plain.ran, plain.collective)


def test_a_header_that_lost_columns_is_no_internal_error(tmp_path: Path) -> None:
    log = log_of(tmp_path, f"#  size  count  type  redop  root  time  time  algbw  busbw #wrong\n{FIRST}")
    assert [row.times_s for row in log.rows] == [pytest.approx((32.62e-6,))]
