"""Tables are text that programs read: compared character by character."""

from __future__ import annotations

from ringtree.draw.text.tables import BandwidthCells, markdown, nccl_footer, nccl_header, nccl_row

TABLE = """\
#                                                             out-of-place                      in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong  algorithm (program)
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    12.90    0.00    0.00       0    12.87    0.00    0.00       0  ring (0123456789ab)
 17179869184    4294967296    double     max       3  1234567  276.03  1483.0   1e+06   123457  276.20  483.35     N/A
        1024           256  bfloat16    none       0      N/A     N/A     N/A     N/A     9.99    0.10    0.10       0
"""  # noqa: E501


def test_the_layout_is_nccl_tests() -> None:
    rows = [
        nccl_row(8, 2, "float32", "sum", -1, BandwidthCells(12.9, 0, 0, 0), BandwidthCells(12.87, 0, 0, 0),
            "ring (0123456789ab)"),
        nccl_row(
            17179869184, 4294967296, "float64", "max", 3,
            BandwidthCells(1234567.2, 276.03, 1483.05, 1000000), BandwidthCells(123456.7, 276.2, 483.35, None),
        ),
        nccl_row(1024, 256, "bfloat16", "none", 0, None, BandwidthCells(9.99, 0.1, 0.1, 0)),
    ]  # fmt: skip
    assert "\n".join([*nccl_header(), *rows, ""]) == TABLE


def test_a_published_line_comes_out_as_it_was() -> None:
    """A line of a real log (AWS, 8 H100, all_reduce), rebuilt from its numbers."""
    line = "   134217728      33554432     float     sum      -1   592.80  226.39  396.19       0   592.10  226.69  396.71       0"  # noqa: E501
    sides = BandwidthCells(592.8, 226.39, 396.19, 0), BandwidthCells(592.1, 226.69, 396.71, 0)
    assert nccl_row(134217728, 33554432, "float32", "sum", -1, *sides) == line


def test_the_footer_reports_wrong_results() -> None:
    assert nccl_footer(0, 1.5) == ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 1.5"]
    assert nccl_footer(3, 0.0)[0].endswith("3 FAILED")
    assert nccl_footer(0, {"a": 1.0}) == nccl_footer(0, 1.0)
    both = nccl_footer(0, {"a.xml": 1.0, "auto": 2.0})
    assert both[1:] == ["# Avg bus bandwidth    : 1 (a.xml)", "# Avg bus bandwidth    : 2 (auto)"]


def test_markdown() -> None:
    assert markdown(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
