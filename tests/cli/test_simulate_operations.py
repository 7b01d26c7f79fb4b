"""`ringtree simulate` of GOAL and Chakra, and what it writes for their simulators."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ringtree.formats import chrome
from tests.cli.conftest import Ringtree
from tests.formats.operations.test_chakra import ALL_GATHER, ALL_REDUCE, coll, trace

TOPOLOGY = ["--topology", "direct:latency=2us,bandwidth=1GB/s,copy=4GB/s,reduce=2GB/s"]
PAIR = """num_ranks 2
rank 0 {
l1: calc 1000
l2: send 1000b to 1
l2 requires l1
}
rank 1 {
recv 1000b from 0
calc 500
}
"""


def time_of(out: str) -> str:
    found = re.search(r"^time ([^,\n]+)", out, re.MULTILINE)
    assert found, out
    return found[1]


def test_a_goal_file_is_played_and_not_proved(ringtree: Ringtree, tmp_path: Path) -> None:
    path = tmp_path / "pair.goal"
    path.write_text(PAIR)
    got = ringtree("simulate", str(path), *TOPOLOGY, "--trace", str(tmp_path / "t.json"))
    assert got.code == 0 and got.err == ""
    assert (
        f"{path}: a GOAL schedule of 2 ranks: 1 send of 1000 B in all; 1 receive; 2 computations of 1.5 µs in all"
        in got.out
    )
    assert "played, not proved: its messages have sizes and no data\n" in got.out
    assert time_of(got.out) == "4 µs"  # 1 + 1 + 2
    assert "0 s  +1 µs  compute" in got.out and "rank0 -> rank1" in got.out
    assert chrome.read(tmp_path / "t.json").ranks == 2
    late = ringtree("simulate", str(path), *TOPOLOGY, "--straggler", "rank=0,delay=3us")
    assert time_of(late.out) == "7 µs"


@pytest.mark.parametrize("words", [["ring", "-n", "4"], ["double_tree", "-n", "7", "--cut"]])
def test_what_is_written_plays_to_the_same_time(ringtree: Ringtree, tmp_path: Path, words: list[str]) -> None:
    goal, chakra = tmp_path / "it.goal", tmp_path / "it"
    got = ringtree("simulate", *words, "--bytes", "64K", *TOPOLOGY, "--goal", str(goal), "--chakra", str(chakra))
    assert got.code == 0 and f"{goal}: LogGOPSim and ATLAHS play it" in got.out
    assert f"{chakra}.0.et to it.{int(words[2]) - 1}.et: ASTRA-sim plays them" in got.out
    for path in (goal, chakra, Path(f"{chakra}.1.et")):
        assert time_of(ringtree("simulate", str(path), *TOPOLOGY).out) == time_of(got.out)


@pytest.mark.parametrize("way", ["goal", "chakra"])
def test_a_wrong_schedule_is_not_written_for_others(ringtree: Ringtree, tmp_path: Path, way: str) -> None:
    path = tmp_path / "wrong.txt"
    path.write_text("schedule wrong broadcast: 3 ranks, 1 chunks, root 0\nonce:\n  round 0: 0 data[0] -> 1\n")
    words = ["simulate", str(path), "--bytes", "8", *TOPOLOGY]
    assert ringtree(*words).code == 0
    got = ringtree(*words, f"--{way}", str(tmp_path / "it"))
    assert got.code == 1 and got.err.count("\n") == 1 and list(tmp_path.iterdir()) == [path]


def test_traces_of_one_name_are_one_set(ringtree: Ringtree, tmp_path: Path) -> None:
    """Files of further ranks would be read with the new ones."""
    words = ["simulate", "ring", "--bytes", "64K", *TOPOLOGY, "--chakra", str(tmp_path / "it")]
    assert ringtree(*words, "-n", "4").code == 0
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    got = ringtree(*words, "-n", "3")
    assert got.code == 1 and "it.3.et is of a trace of more ranks; expected another name" in got.err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert ringtree(*words, "-n", "4").code == 0
    (tmp_path / "it.4.et").mkdir()
    assert "it.4.et is a folder" in ringtree(*words, "-n", "5").err
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_collectives_are_expanded(ringtree: Ringtree, tmp_path: Path) -> None:
    nodes = [
        coll(0, ALL_REDUCE, 1 << 20),
        coll(1, ALL_REDUCE, 1 << 20, 0),
        coll(2, ALL_GATHER, 64, 1, pg_name=(29, "1")),
    ]
    path, groups = trace(tmp_path, *[nodes] * 2, nodes[:2]), tmp_path / "groups.json"
    groups.write_text('{"1": [1, 0]}')
    got = ringtree("simulate", str(path), "--groups", str(groups), "--expand", "ring")
    assert got.code == 0, got.err
    assert "  2 times all_reduce of 1 MiB over 3 ranks, expanded by ring\n" in got.out
    assert "  1 times all_gather of 128 B over 2 ranks, expanded by ring\n" in got.out
    some = ringtree("simulate", str(path), "--groups", str(groups), "--expand", "bruck").out
    assert "over 2 ranks, expanded by bruck" in some and "over 3 ranks, expanded by bruck" not in some
    free = ringtree("simulate", str(path), "--groups", str(groups))
    assert free.code == 0 and "expanded by" in free.out
    assert "communicator '1': expected --groups FILE" in ringtree("simulate", str(path)).err
    assert "no_such" in ringtree("simulate", str(path), "--groups", str(groups), "--expand", "no_such").err


def test_an_algorithm_that_expands_nothing_is_refused(ringtree: Ringtree, tmp_path: Path) -> None:
    empty = trace(tmp_path, [], [], name="empty")
    got = ringtree("simulate", str(empty), "--expand", "ring")
    assert (got.code, got.out) == (1, "") and got.err.count("\n") == 1
    assert "--expand ring: " in got.err and "empty has no collectives to expand; leave it out" in got.err
    (tmp_path / "groups.json").write_text('{"1": [0, 1]}')
    got = ringtree("simulate", str(empty), "--groups", str(tmp_path / "groups.json"))
    assert got.code == 1 and "empty has no collectives, whose ranks it names; leave it out" in got.err
    reduced = trace(tmp_path, [coll(0, 0, 8)], [coll(0, 0, 8)], name="reduced")
    got = ringtree("simulate", str(reduced), "--expand", "bruck")
    assert got.code == 1 and "--expand bruck: it serves none of all_reduce" in got.err
    assert ringtree("simulate", str(reduced), "--expand", "ring").code == 0


def test_mistakes_are_one_line(ringtree: Ringtree, tmp_path: Path) -> None:
    path = tmp_path / "pair.goal"
    path.write_text(PAIR)
    for words, message in (
        (["simulate", str(path), "--bytes", "8"], "--bytes applies to schedules; {} is a GOAL schedule: leave it out"),
        (["simulate", str(path), "-n", "2"], "-n/--ranks applies to schedules"),
        (["simulate", str(path), "--with", "ring:all_reduce:8"], "--with applies to schedules"),
        (
            ["simulate", str(path), "--expand", "ring"],
            "--expand applies to collectives of an execution trace; {} is a GOAL",
        ),
        (["simulate", str(path), "--groups", str(path)], "not JSON"),
        (["simulate", "ring", "-n", "2"], "required: --bytes, the size of the whole vector"),
        (["simulate", "ring", "-n", "2", "--bytes", "8", "--expand", "ring"], "--expand applies to Chakra"),
        (["simulate", "ring", "-n", "2", "--bytes", "8", "--goal", str(tmp_path)], "is a folder"),
        (
            ["simulate", "ring", "-n", "2", "--bytes", "8", "--chakra", "."],
            "--chakra .: expected what the names of the",
        ),
        (
            ["simulate", "ring", "-n", "2", "--bytes", "8", "--chakra", ""],
            "argument --chakra: an empty path",
        ),
        (
            ["simulate", "ring", "-n", "2", "--bytes", "8", "--chakra", "new/"],
            "'new/' is a folder; expected what files'",
        ),
        (["simulate", str(tmp_path / "none.0.et")], "none.0.et: no such file; expected one for each of 1 rank"),
        (["simulate", str(tmp_path / "none.goal")], "none.goal: no such file"),
        (
            ["simulate", "ring", "--bytes", "8", "--with", "ring:all_reduce:8", "--goal", "x"],
            "leave --with, --straggler",
        ),
        (["prove", str(path)], "a GOAL schedule: its messages have no data; `ringtree simulate` plays it"),
        (["show", str(path)], "its messages have no data"),
        (["bench", "--schedule", str(path)], "its messages have no data"),
    ):
        got = ringtree(*words)
        assert got.code != 0 and message.format(path) in got.err and got.err.count("\n") == 1, (words, got)
    path.write_text(PAIR.replace("from 0", "from 1"))
    assert "rank 1 waits for a message of rank 1 with tag 0, which never comes" in ringtree("simulate", str(path)).err
