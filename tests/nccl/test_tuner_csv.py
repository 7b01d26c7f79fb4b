"""The tuner plugin's CSV: written tables read back, and hold no line that NCCL ignores."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.nccl.files.tuner_csv import HEARD, LONGEST_LINE, TunerChoice, TunerRow, read, rows, write

ROWS = st.builds(
    lambda collective, low, more, algorithm, protocol, channels, nodes, ranks: TunerRow(
        collective, low, low + more, algorithm, protocol, channels, nodes, ranks
    ),
    st.sampled_from(sorted(HEARD)),
    st.integers(0, 2**40),
    st.integers(0, 2**40),
    st.sampled_from(["ring", "tree", "nvls", "nvls_tree", "collnet_direct", "collnet_chain", "pat"]),
    st.sampled_from(["ll", "ll128", "simple"]),
    st.sampled_from([-1, 1, 64]),
    st.sampled_from([-1, 1, 12_500]),
    st.sampled_from([-1, 2, 100_000]),
)


@given(st.lists(ROWS, max_size=8))
def test_written_tables_read_back_without_the_columns_nccl_ignores(table: list[TunerRow]) -> None:
    text = write(table)
    assert read(text) == tuple(row for row in table if row.heard)
    assert all(len(line.encode()) <= LONGEST_LINE for line in text.splitlines())


@pytest.mark.parametrize("collective", ["broadcast", "reduce", "reduce_scatter", "all_gather"])
def test_a_tree_is_for_all_reduce_alone(collective: str) -> None:
    assert rows(collective, [TunerChoice(8, "tree", "ll")]) == ()
    assert rows("all_reduce", [TunerChoice(8, "tree", "ll")]) != ()


def test_rows_cover_the_sizes_and_meet_between_two() -> None:
    choices = [
        TunerChoice(64, "tree", "ll", 2),
        TunerChoice(256, "tree", "ll", 2),
        TunerChoice(4096, "ring", "simple", 24),
    ]
    low, high = rows("all_reduce", choices, 4, 32)
    assert (low.min_bytes, high.max_bytes) == (46, 5792)  # 64 and 4096, half an octave beyond
    assert high.min_bytes == low.max_bytes + 1
    assert high.min_bytes == 1025  # 1024 is the geometric mean
    assert write([low]).splitlines()[1] == f"allreduce,46,{low.max_bytes},tree,ll,2,4,32,-1,-1"


@pytest.mark.parametrize("nbytes", [1, 2, 8, 4 << 20, 1 << 50])
def test_a_size_alone_stands_for_an_octave_around_it(nbytes: int) -> None:
    (row,) = rows("all_reduce", [TunerChoice(nbytes, "ring", "ll")])
    assert nbytes / 1.5 < row.min_bytes <= nbytes <= row.max_bytes < nbytes * 1.5


def test_nothing_is_written_where_the_choice_is_nccls_own() -> None:
    """And the runs on either side stay apart."""
    tree = ("tree", "ll")
    found = rows("all_reduce", [TunerChoice(8, *tree), TunerChoice(32), TunerChoice(128, *tree), TunerChoice(256)])
    assert [(row.min_bytes, row.max_bytes) for row in found] == [(6, 16), (65, 181)]
    assert rows("all_reduce", [TunerChoice(8)]) == rows("all_reduce", []) == ()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("allreduce,0,8,ring,simple,2,1", "line 1: 7 fields; expected 8 to 10"),
        ("alltoall,0,8,ring,simple,2,1,8", "collective 'alltoall'; expected one of broadcast"),
        ("allreduce,0,8,rings,simple,2,1,8", "algorithm 'rings'"),
        ("allreduce,0,8,ring,simple,65,1,8", "channels 65"),
        ("allreduce,9,8,ring,simple,2,1,8", "from 9 to 8 bytes"),
        ("allreduce,zero,8,ring,simple,2,1,8", "line 1: invalid literal"),
        ("allreduce,0,8,ring,simple,2,1,8" + " " * 300, "expected at most 254"),
    ],
)
def test_lines_that_the_plugin_misreads_are_refused(line: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        read(line)


def test_the_sample_forms_of_the_plugin_are_read() -> None:
    text = "# c\n\nallreduce,0,65536,tree,simple,2,1,-1,-1,-1\nbroadcast, 0, 32768,ring,simple,4,2,32\n"
    assert [row.collective for row in read(text)] == ["all_reduce", "broadcast"]
