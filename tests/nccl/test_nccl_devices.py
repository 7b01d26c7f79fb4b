"""The list of devices of nccl-tests: ranks that cannot be, and ranks that have no line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.nccl.test_nccl_tests import log_of

ROW = "1024 256 float sum -1 50 0.02 0.04 0 50 0.02 0.04 0\n"


def listed(ranks: Iterable[int]) -> str:
    return "".join(f"#  Rank {r:2} Group  0 Pid 47 on node device {r % 8} [0x1b] NVIDIA H100\n" for r in ranks)


def as_json(ranks: Iterable[int]) -> str:
    names = {"hostname": "node", "device": 0, "device_hex": "0x1b", "device_info": "H100"}
    side = {"time": 50.0, "alg_bw": 0.02, "bus_bw": 0.04}
    row = {"size": 1024, "count": 256, "type": "float", "redop": "sum", "root": -1, "out_of_place": side}
    return json.dumps({"config": {"devices": [{"rank": r} | names for r in ranks]}, "results": [row]})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (listed([*range(7), 999_999_999]) + ROW, "line 8: rank '999999999'; expected a whole number of 0 to 1048575"),
        (as_json([0, -5]), "rank '-5'; expected a whole number of 0 to 1048575"),
        (as_json([0, 1 << 20]), "rank '1048576'; expected a whole number of 0 to 1048575"),
        (listed([*range(7), 99]) + ROW, "line 1: the list of devices lacks ranks 7 to 98; expected a line for each"),
        (as_json([0, 2, 1000]), "the list of devices lacks ranks 1, 3 to 999; expected a line for each"),
    ],
)
def test_ranks_that_cannot_be_are_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        log_of(tmp_path, text)


def test_lines_that_the_list_lost_are_noted(tmp_path: Path) -> None:
    log = log_of(tmp_path, listed([0, 1, 4, 5, 7]) + ROW)
    assert log.ranks == 8 and "line 1: the list of devices lacks ranks 2 to 3, 6" in log.inferred
    assert not any("lacks" in note for note in log_of(tmp_path, listed(range(8)) + ROW).inferred)


@pytest.mark.parametrize("ranks", [4, 8, 16])
def test_more_ranks_in_nccls_lines_than_in_the_list_are_noted(tmp_path: Path, ranks: int) -> None:
    info = f"node:1:2 [0] NCCL INFO comm 0x5 rank 0 nRanks {ranks} nNodes 2 localRanks 8 localRank 0 MNNVL 0\n"
    notes = [note for note in log_of(tmp_path, listed(range(8)) + info + ROW).inferred if "NCCL's lines" in note]
    assert notes == ["NCCL's lines have 16 ranks, the list of devices 8: is the log of one run?"] * (ranks == 16)


def run_on(hosts: str, *times_us: float, pid: int = 47, sizes: tuple[int, ...] = (8, 1 << 30)) -> str:
    """A run of 8 ranks, as many on each of the hosts, and its rows."""
    each = 8 // len(hosts.split())
    names = [host for host in hosts.split() for _ in range(each)]
    devices = (
        f"#  Rank {r:2} Group  0 Pid {pid} on {host} device {r % each} [0x1b] NVIDIA H100\n"
        for r, host in enumerate(names)
    )
    rows = (f"{n} {n // 4} float sum -1 {us:.2f} 0.00 0.00 0\n" for n, us in zip(sizes, times_us, strict=True))
    return "".join((*devices, *rows))


def between(notes: Iterable[str]) -> list[str]:
    """The notes that compare runs or repeated rows."""
    return [note for note in notes if "runs" in note or "differ" in note]


AS_ONE = "2 runs, on a (line 1) and b (line 11), are judged as one, each size by the quickest"
EACH = "a file for each has a verdict for each"


@pytest.mark.parametrize(
    ("runs", "note"),
    [
        (
            [run_on("a", 10, 1000), run_on("b", 70, 7000)],
            f"{AS_ONE} (1 GiB took 7 times as long on b as on a); {EACH}",
        ),
        (
            [run_on("a", 10, 7000), run_on("b", 10, 1000)],
            f"{AS_ONE} (1 GiB took 7 times as long on a as on b); {EACH}",
        ),
        (
            [run_on("a", 30, 1000), run_on("b", 10, 1500)],
            f"{AS_ONE} (8 B took 3 times as long on a as on b, 1 GiB took 1.5 times as long on b as on a); {EACH}",
        ),
        ([run_on("a", 10, 1000), run_on("b", 10, 1000)], f"{AS_ONE} (no time is over 1.05 times another's); {EACH}"),
        (
            [run_on("a", 10, sizes=(8,)), run_on("b", 1000, sizes=(1 << 30,))],
            "2 runs, on a (line 1) and b (line 10), are judged as one, each size by the quickest (no size is of two of "
            f"them); {EACH}",
        ),
        (
            [run_on("a b", 10, 1000), run_on("c d", 10, 2000)],
            "2 runs, on a and b (line 1) and c and d (line 11), are judged as one, each size by the quickest (1 GiB "
            f"took 2 times as long on c and d as on a and b); {EACH}",
        ),
        (
            [run_on("a", 10, 1000), run_on("a", 20, 1000)],
            "times of one size differ by up to 2 times (8 B, lines 9 and 19): the quickest counts",
        ),
        ([run_on("a", 10, 1000), run_on("a", 12, 1000)], ""),
        ([run_on("a", 10, 1000)], ""),
    ],
)
def test_runs_of_other_hosts_or_speeds_are_noted(tmp_path: Path, runs: list[str], note: str) -> None:
    log = log_of(tmp_path, "".join(runs))
    assert between(log.inferred) == [note] * bool(note)
    assert log.ranks == 8 and len(log.ran) == 8


def test_of_many_runs_the_first_and_the_slowest_are_named(tmp_path: Path) -> None:
    runs = [run_on(f"host{k}", 10, 1000 + 500 * (k == 57)) for k in range(100)]
    (note,) = between(log_of(tmp_path, "".join(runs)).inferred)
    assert note.startswith("100 runs, on host0 (line 1), host1 (line 11), host2 (line 21), host3 (line 31) and 96 more")
    assert "(1 GiB took 1.5 times as long on host57 as on host0)" in note


def test_runs_over_other_numbers_of_hosts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=re.escape("line 11: a run of 2 hosts behind one of 1 (line 1); expected runs")
    ):
        log_of(tmp_path, run_on("a", 10, 1000) + run_on("a b", 10, 1000))


def mixed(*texts: str) -> str:
    return "".join(
        line for lines in zip(*(text.splitlines(keepends=True) for text in texts), strict=True) for line in lines
    )


def test_the_outputs_of_two_programs_in_one_are_refused(tmp_path: Path) -> None:
    words = (
        "line 2: rank 0 is on b, device 0, and in line 1 on a, device 0, with no row between them: the outputs of two"
    )
    with pytest.raises(ValueError, match=re.escape(words)):
        log_of(tmp_path, mixed(run_on("a", 10, 1000), run_on("b", 70, 7000)))
    moved = run_on("a", 10, 1000).replace("device 0", "device 8")
    with pytest.raises(ValueError, match=re.escape("line 2: rank 0 is on a, device 8, and in line 1 on a, device 0")):
        log_of(tmp_path, mixed(run_on("a", 10, 1000), moved))


def test_a_line_that_is_there_twice_counts_once_and_other_processes_are_noted(tmp_path: Path) -> None:
    one = run_on("a", 10, 1000)
    twice = log_of(tmp_path, mixed(one, one))
    assert (len(twice.ran), twice.nodes, twice.ranks) == (8, 1, 8)
    assert not any("listed as process" in note for note in twice.inferred)
    notes = log_of(tmp_path, mixed(one, run_on("a", 10, 1000, pid=48))).inferred
    assert [note for note in notes if "listed as process" in note] == [
        "lines 1 and 2: rank 0 is listed as process 47 and as 48: programs side by side, or one that began again"
    ]
