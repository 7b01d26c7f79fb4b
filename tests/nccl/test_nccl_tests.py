"""nccl-tests' and rccl-tests' output read back: in each of its forms, and files that are no log."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ringtree.nccl.files import nccl_tests
from ringtree.nccl.files.debug_log import Debug
from ringtree.nccl.files.nccl_tests import Log, read

NEW = """\
# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 1 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid   4711 on     node-a device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   4712 on     node-a device  1 [0000:43:00] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid   9711 on     node-b device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  3 Group  0 Pid   9712 on     node-b device  1 [0000:43:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    50.00   20.97   31.46       0    40.00   26.21   39.32       2
     2097152        524288     float     sum      -1    60.00   34.95   52.43       0    70.00   29.96   44.94       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 42.0
#
# Collective test concluded: all_reduce_perf
"""
OLD = """\
# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#
#                                                     out-of-place                       in-place
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144   float     sum    50.00   20.97   36.70  1e-06    40.00   26.21   45.87  5e-07
     2097152        524288   float     sum    60.00   34.95   61.17  1e-06    70.00   29.96   52.43  5e-07
"""
ITERATIONS = """\
#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%
     1048576        262144     float     sum      -1    50.00   20.97   31.46       0    49.00    51.00    51.00     1.00    40.00   26.21   39.32       0    39.00    41.00    41.00     1.00
     2097152        524288     float     sum      -1    60.00   34.95   52.43       0    59.00    61.00    61.00     1.00    70.00   29.96   44.94       0    69.00    71.00    71.00     1.00
"""  # noqa: E501


def log_of(tmp_path: Path, text: str, name: str = "any") -> Log:
    path = tmp_path / name
    path.write_text(text)
    return read(path)


def _times(log: Log) -> list[tuple[int, tuple[float, ...]]]:
    return [(r.nbytes, tuple(round(t * 1e6, 3) for t in r.times_s)) for r in log.rows]


TIMES = [(1 << 20, (50.0, 40.0)), (1 << 21, (60.0, 70.0))]


def test_the_table_and_its_hosts(tmp_path: Path) -> None:
    log = log_of(tmp_path, NEW)
    assert (log.collective, log.ranks, log.nodes, log.inferred) == ("all_reduce", 4, 2, ())
    assert _times(log) == TIMES
    first = log.rows[0]
    assert (first.time_s, first.busbw, first.wrong, first.line) == (pytest.approx(40e-6), 39.32, 2, 14)
    assert [(r.rank, r.host, r.device, r.busid) for r in log.ran][3] == (3, "node-b", 1, "0000:43:00")


@pytest.mark.parametrize("text", [OLD, ITERATIONS, NEW.split("(us)  (GB/s)  (GB/s)\n")[1]], ids=["old", "-I", "bare"])
def test_other_columns_are_read_by_their_header(tmp_path: Path, text: str) -> None:
    assert _times(log_of(tmp_path, text)) == TIMES


@pytest.mark.parametrize("tag", ["[1,0]<stdout>:", "[1,0]<stdout>: ", "0: ", "2024-05-01T10:00:00.123456Z ",
                                 "[2024-05-01 10:00:00] ", "node-a: "])  # fmt: skip
def test_tags_before_each_line_do_no_harm(tmp_path: Path, tag: str) -> None:
    log = log_of(tmp_path, "".join(tag + line + "\n" for line in NEW.splitlines()))
    assert _times(log) == TIMES and (log.collective, log.ranks, log.nodes) == ("all_reduce", 4, 2)


def test_nccls_lines_in_between_are_read_and_a_broken_row_left_out(tmp_path: Path) -> None:
    extra = [
        "node-a:4711:4720 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.",
        "node-a:4711:4720 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_3:1/IB [RO]; OOB eth0:10.0.0.1<0>",
        "node-a:4711:4720 [0] NCCL INFO Using network IB",
        "node-a:4711:4720 [0] NCCL INFO comm 0x55 rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0",
        "node-a:4711:4720 [0] NCCL INFO Channel 00/16 :    0   1   2   3",
        "node-a:4711:4720 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",
        "node-a:4711:4720 [0] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [receive] via NET/IB/0/GDRDMA",
        "node-a:4711:4720 [0] NCCL INFO Channel 01/0 : 3[1] -> 0[0] [receive] via NET/IB/1",
        "     4194304       1048576     float     sum      -1    12.node-a:4711:4720 [0] NCCL INFO Connected all rings",
    ]
    lines = NEW.splitlines()
    log = log_of(tmp_path, "\n".join([*lines[:14], *extra, *lines[14:]]))
    assert _times(log) == TIMES
    assert {sign: log.debug.times(sign) for sign in ("shm", "gdrdma", "staged", "using_other", "p2p", "socket")} == {
        "shm": 1, "gdrdma": 1, "staged": 1, "using_other": 1, "p2p": 0, "socket": 0,
    }  # fmt: skip
    assert log.debug.hcas == ("mlx5_0", "mlx5_3") and log.debug.channels == 16
    assert log.debug.environment == {"NCCL_P2P_DISABLE": "1"}
    assert log.debug.signs["shm"].text == "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct"


@pytest.mark.parametrize(
    ("way", "sign"),
    [
        ("IB/0/GDRDMA", "gdrdma"),
        ("IB/0(8)/GDRDMA/Shared", "gdrdma"),
        ("AWS Libfabric/0/GDRDMA", "gdrdma"),
        ("AWS Libfabric/0", "staged"),
        ("IB/1", "staged"),
        ("Socket/0", "socket"),
    ],
)
def test_a_channels_network_may_be_two_words(way: str, sign: str) -> None:
    debug = Debug()
    debug.read(f"a:1:1 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [receive] via NET/{way}", 1)
    assert {*debug.signs} == {sign}


def test_json_as_the_tests_write_it(tmp_path: Path) -> None:
    def way(us: float) -> dict[str, float]:
        return {"time": us, "alg_bw": 1.0, "bus_bw": 1.5, "nwrong": 0.0}

    document = {
        "config": {"devices": [{"rank": k, "group": 0, "pid": 1, "hostname": "a", "device": k, "device_hex": "0:1b:0",
                                "device_info": "H100"} for k in range(4)]},
        "results": [
            {"size": n, "count": n // 4, "type": "float", "redop": "sum", "root": "    -1", "out_of_place": way(a),
             "in_place": way(b), "experiment_name": "all_reduce_perf"}
            for n, (a, b) in TIMES
        ],
    }  # fmt: skip
    log = log_of(tmp_path, json.dumps(document))
    assert _times(log) == TIMES and (log.collective, log.ranks, log.nodes) == ("all_reduce", 4, 1)


def test_a_million_wrong_elements_are_printed_with_an_exponent(tmp_path: Path) -> None:
    log = log_of(tmp_path, "1024 256 float sum -1 50 0.02 0.04 1.23457e+06 50 0.02 0.04 3\n")
    assert log.rows[0].wrong == 1_234_573
    of_errors = log_of(tmp_path, "1024 256 float sum -1 50 0.02 0.04 2e-07 50 0.02 0.04 1e-07\n")
    assert of_errors.rows[0].wrong == 0


@pytest.mark.parametrize("word", ["FAILED", "-1", "true"])
def test_wrong_elements_in_other_words_are_refused(tmp_path: Path, word: str) -> None:
    with pytest.raises(ValueError, match=f"line 1: wrong '{word}'; expected a number of elements, or N/A"):
        log_of(tmp_path, f"1024 256 float sum -1 50 0.02 0.04 {word} 50 0.02 0.04 0\n")
    not_a_number = log_of(tmp_path, "1024 256 float sum -1 50 0.02 0.04 nan 50 0.02 0.04 N/A\n")
    assert not_a_number.rows[0].wrong == 1


def test_a_field_that_json_lacks_is_named(tmp_path: Path) -> None:
    for document, why in (('{"config": {}}', "no 'results'"), ('{"results": [[]]}', "a value of another kind")):
        with pytest.raises(ValueError, match=rf"is no JSON of nccl-tests \({why}\)"):
            log_of(tmp_path, document)


def test_values_out_of_bounds_count_without_a_line_that_has_them(tmp_path: Path) -> None:
    log = log_of(tmp_path, "1024 256 float sum -1 50 0.02 0.04 N/A\n# Out of bounds values : 3 FAILED\n")
    assert "WRONG RESULTS: line 2: 3 values out of bounds, in no line of the table" in log.inferred
    sound = log_of(tmp_path, "1024 256 float sum -1 50 0.02 0.04 0\n# Out of bounds values : 0 OK\n")
    assert not any("WRONG" in text for text in sound.inferred)


def run_of(ranks: int, groups: int = 1, program: str = "all_reduce", us: float = 50.0) -> str:
    """A log of one run. Each group's ranks are `ranks` over `groups`."""
    devices = [
        f"#  Rank {r:2} Group {r % groups:2} Pid 47 on node{r // 8} device {r % 8:2} [0000:1b:00] NVIDIA H100"
        for r in range(ranks)
    ]
    redop, count = ("sum", 256) if program == "all_reduce" else ("none", 256 // ranks)
    rows = f"1024 {count} float {redop} -1 {us} 0.02 0.04 0 {us} 0.02 0.04 0"
    return "\n".join([f"# Collective test starting: {program}_perf", *devices, rows, ""])


@pytest.mark.parametrize(
    ("text", "collective", "why"),
    [
        (run_of(8) + run_of(16), "", "line 12: a run of 16 ranks behind one of 8 (line 2); expected runs of as many"),
        (run_of(16, groups=2), "", "line 2: 2 groups of ranks side by side (NCCL_TESTS_SPLIT); expected one"),
        (run_of(8, program="all_gather"), "all_reduce", "is of all_gather (line 1); expected the log of all_reduce"),
        (
            run_of(8) + run_of(8, program="all_gather"), "",
            "is of all_reduce (line 1) and all_gather (line 11); expected the log of one collective",
        ),
        (
            "1024 256 float sum -1 50 0.02 0.04 0\n1024 16 float none -1 50 0.02 0.04 0\n", "",
            "line 2: a row of another collective than the one before it, by redop, root or count",
        ),
    ],
    ids=["ranks", "groups", "other", "two", "unnamed"],
)  # fmt: skip
def test_runs_that_are_not_of_one_test_are_refused(tmp_path: Path, text: str, collective: str, why: str) -> None:
    path = tmp_path / "run.log"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(why)):
        read(path, collective)


def test_of_two_programs_the_collective_that_is_named_counts(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(run_of(8, us=50.0) + run_of(16, program="all_gather", us=20.0))
    for collective, ranks, us in (("all_reduce", 8, 50.0), ("all_gather", 16, 20.0)):
        log = read(path, collective)
        assert (log.collective, log.ranks, _times(log)) == (collective, ranks, [(1024, (us, us))])


def test_two_runs_of_one_test_are_one_log(tmp_path: Path) -> None:
    log = log_of(tmp_path, run_of(8, us=50.0) + run_of(8, us=40.0))
    assert (log.ranks, log.nodes, len(log.ran), _times(log)) == (8, 1, 8, [(1024, (40.0, 40.0))])


def test_rows_before_their_programs_name_are_its_own(tmp_path: Path) -> None:
    """nccl-tests of 2.17 names it at the end, too; a log may have lost its beginning."""
    log = log_of(tmp_path, "1024 256 float sum -1 50 0.02 0.04 0\n# Collective test concluded: all_reduce_perf\n")
    assert log.collective == "all_reduce" and not any("collective" in text for text in log.inferred)


def test_columns_of_a_csv_that_tell_lines_of_a_size_apart_are_named(tmp_path: Path) -> None:
    head = "size_B,count,type,redop,time,algbw,busbw,nodes,stamp\n"
    log = log_of(tmp_path, head + "8,2,float,sum,9,0,0,1,a\n8,2,float,sum,7,0,0,2,a\n16,4,float,sum,7,0,0,2,b\n")
    assert "lines of one size differ in columns that are not read (nodes): the quickest counts" in log.inferred


def test_csv_with_its_facts_and_the_quicker_of_two_runs(tmp_path: Path) -> None:
    head = "# collective: all_gather\n# nranks: 16\n" + ",".join(nccl_tests.CSV_COLUMNS) + "\n"
    rows = "1024,16,float,none,-1,54.0,0.0,0.0,55.0,0.0,0.0\n1024,16,float,none,-1,50.0,0.0,0.0,55.0,0.0,0.0\n"
    log = log_of(tmp_path, head + rows)
    assert (log.collective, log.ranks) == ("all_gather", 16)
    assert _times(log) == [(1024, (50.0, 55.0))]


@pytest.mark.parametrize(("wrong", "expected"), [
    ((0, 0, 0), (0, 0)),
    ((2, 0, 0), (4, 1)),
    ((0, 2, 0), (4, 2)),
    ((0, 3, 2), (10, 2)),
    ((1, 0, 2), (6, 1)),
])  # fmt: skip
def test_wrong_elements_of_a_size_are_those_of_all_its_lines(
    tmp_path: Path, wrong: tuple[int, ...], expected: tuple[int, int]
) -> None:
    """Three lines of one size, of which the second is the quickest."""
    rows = zip((60.0, 50.0, 55.0), wrong, strict=True)
    log = log_of(tmp_path, "".join(f"1024 256 float sum -1 {us} 0.02 0.04 {n} {us} 0.02 0.04 {n}\n" for us, n in rows))
    (row,) = log.rows
    assert _times(log) == [(1024, (50.0, 50.0))]
    assert (row.line, row.wrong, row.wrong_line) == (2, *expected)


def test_csv_of_one_side_has_names_of_its_own(tmp_path: Path) -> None:
    head = "size,count,type,redop,root,time,algbw,busbw,wrong\n"
    log = log_of(tmp_path, head + "0,0,float,none,-1,0.2,0,0,0\n1024,32,float,none,-1,54.0,0.02,0.02,3\n")
    assert (log.collective, log.ranks) == ("all_gather", 8)
    assert _times(log) == [(1024, (54.0,))] and log.rows[0].wrong == 3


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_a_log_that_powershell_wrote_is_named_as_such(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(("" if encoding == "utf-16" else "\N{BOM}").encode(encoding) + NEW.encode(encoding))
    with pytest.raises(ValueError, match=r"run\.log: is UTF-16, as PowerShell's > writes it; expected UTF-8"):
        read(path)


def test_cells_of_a_csv_may_be_quoted(tmp_path: Path) -> None:
    rows = [("size", "count", "type", "time"), ("1024", "256", "float", "54.0")]
    log = log_of(tmp_path, "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows))
    assert _times(log) == [(1024, (54.0,))]


@pytest.mark.parametrize("text", [
    "size,count,type,redop,root,time,algbw,busbw,wrong\n1024,32,float,none,-1,54.0,0.02,0.02,3\n",
    '{"results": [{"size": 1024, "count": 32, "type": "float", "redop": "none", "root": -1,'
    ' "out_of_place": {"time": 54, "alg_bw": 1, "bus_bw": 1}}]}',
    "# collective: all_gather\n1024 32 float none -1 54.0 0.02 0.02 3\n",
], ids=["CSV", "JSON", "text"])  # fmt: skip
def test_a_byte_order_mark_is_passed_over(tmp_path: Path, text: str) -> None:
    log = log_of(tmp_path, "\N{BOM}" + text)
    assert _times(log) == [(1024, (54.0,))] and log.collective == "all_gather"


def test_csv_without_a_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"line 2: expected the columns size_B, .*, or one time alone"):
        log_of(tmp_path, "size,count,type,took\n1024,32,float,54.0\n")


def test_csv_with_a_lone_carriage_return_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 2: new-line character"):
        log_of(tmp_path, ",".join(nccl_tests.CSV_COLUMNS) + "\n1024,3\r2,float,54.0\n")


def _row(nbytes: int, count: int, redop: str, root: int, algbw: float, busbw: float) -> str:
    return f"{nbytes} {count} float {redop} {root} 100.0 {algbw:.2f} {busbw:.2f} 0 100.0 {algbw:.2f} {busbw:.2f} 0\n"


@pytest.mark.parametrize(("ranks", "factor", "blocks", "redop", "root", "name"), [
    (16, 1.875, 1, "sum", -1, "all_reduce"),
    (72, 2 * 71 / 72, 1, "sum", -1, "all_reduce"),
    (2, 1.0, 1, "sum", -1, "all_reduce"),
    (16, 0.9375, 16, "none", -1, "all_gather"),
    (8, 0.875, 8, "sum", -1, "reduce_scatter"),
    (16, 0.9375, 1, "none", -1, "all_gather"),
    (8, 0.875, 1, "sum", -1, "reduce_scatter"),
    (0, 1.0, 1, "none", 0, "broadcast"),
    (0, 1.0, 1, "sum", 0, "reduce"),
    (0, 1.0, 1, "none", -1, "send_recv"),
])  # fmt: skip
def test_collective_and_ranks_follow_from_the_figures(
    tmp_path: Path, ranks: int, factor: float, blocks: int, redop: str, root: int, name: str
) -> None:
    rows = "".join(_row(n, n // 4 // blocks, redop, root, 200.0, 200 * factor) for n in (1 << 25, 1 << 26, 1 << 27))
    log = log_of(tmp_path, rows)
    assert (log.collective, log.ranks) == (name, ranks)
    assert "taken to be" in log.inferred[0]


@pytest.mark.parametrize(("text", "expected"), [
    ("", "empty; expected the output of nccl-tests"),
    ("hello\nworld\n", "no line of a table"),
    ("\0\1\2ELF", "no text"),
    ("{\"results\": 3}", "no JSON of nccl-tests"),
    ("{" * 5000, "not JSON ("),
    ("size_B,count\n8,2\n", "line 2: expected the columns size_B"),
    ("size;count;type;time\n8;2;float;3\n", "line 1: columns divided by ';'; expected commas"),
    ("size_B,count,type,oop_time_us\n8,2\n", "line 2: 2 cells; expected 4"),
    ("size_B,count,type,oop_time_us\nx,2,float,1\n", "line 2: size 'x'; expected a whole number"),
    ("size_B,count,type,oop_time_us\n8,2,float,nan\n", "line 2: time nan; expected a number of at least 0"),
    ("size_B,count,type,oop_time_us\n8,2,float,fast\n", "line 2: time 'fast'; expected a number"),
    ("# collective: dance\n", "line 1: collective dance: expected one of all_reduce"),
    ("# nranks: many\n", "line 1: nranks 'many'; expected a whole number"),
    ("8 2 float sum -1 -5.0 0.00 0.00 0 -5.0 0.00 0.00 0\n", "line 1: time -5.0; expected a number of at least 0"),
    ("8 2 float sum -1 1e-9 0.00 0.00 0\n", "line 1: time 1e-9; expected 0.001 to 1e+12 microseconds"),
    ("# all_reduce_perf\n# all_gather_perf\n8 2 float sum -1 5.0 0.00 0.00 0\n", "one collective"),
])  # fmt: skip
def test_a_file_that_is_no_log_gets_one_line(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=re.escape(expected)) as caught:
        log_of(tmp_path, text, "mine.log")
    assert "mine.log" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("line", [" " * 16000, "8 " * 8000, "# Rank 0 " + "on a " * 3000, "[1,0]" * 3000,
                                  "NCCL INFO P2P" + "P2P " * 3000, "1 1 float " * 1500, "#" * 16000])  # fmt: skip
@pytest.mark.timeout(60)  # by the square of a line's length it would be minutes
def test_hostile_lines_cost_no_more_than_their_length(tmp_path: Path, line: str) -> None:
    assert _times(log_of(tmp_path, "\n".join([line] * 60) + "\n" + NEW)) == TIMES


def test_too_many_lines_or_bytes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl_tests, "MOST_LINES", 10)
    with pytest.raises(ValueError, match="more than 10 lines"):
        log_of(tmp_path, NEW)
    monkeypatch.setattr(nccl_tests, "LARGEST_BYTES", 5000)
    with pytest.raises(ValueError, match="at most 5,000 bytes"):
        log_of(tmp_path, NEW * 5)


def test_a_pipe_that_nobody_writes_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    with pytest.raises(ValueError, match="a pipe; expected the output of nccl-tests"):
        read(tmp_path / "log")


def _json_log(rank: float, host: str) -> str:
    way = {"time": 3, "alg_bw": 1, "bus_bw": 1}
    row = {"size": 8, "count": 2, "type": "float", "redop": "sum", "root": -1, "out_of_place": way}
    device = {"rank": rank, "hostname": host, "device": 0, "device_hex": "0x1b", "device_info": "H100"}
    return json.dumps({"results": [row], "config": {"devices": [device]}})


def test_names_in_json_cannot_command_a_terminal_and_ranks_are_numbers(tmp_path: Path) -> None:
    assert log_of(tmp_path, _json_log(0, "\x1b[31mhost\n")).ran[0].host == "?[31mhost?"
    with pytest.raises(ValueError, match="no JSON of nccl-tests"):
        log_of(tmp_path, _json_log(float("inf"), "host"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_log_is_read_or_refused_in_one_line(tmp_path: Path, data: st.DataObject) -> None:
    raw = bytearray(data.draw(st.sampled_from([NEW, OLD, ITERATIONS])).encode())
    for _ in range(data.draw(st.integers(1, 20))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged"
    path.write_bytes(raw)
    try:
        assert read(path).rows
    except ValueError as error:
        assert str(path) in str(error)
