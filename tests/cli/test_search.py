"""ringtree search: the table, the orders, the files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ringtree.formats import load
from ringtree.machines.catalogue import machine
from ringtree.search import candidates
from tests.cli.conftest import Ringtree

MIB = 1 << 20


def test_the_table_has_the_quickest_first_and_its_orders(ringtree: Ringtree) -> None:
    got = ringtree("search", "all_reduce", "--topology", "dgx-1-v100", "--bytes", "256M")
    lines = got.out.splitlines()
    assert got.code == 0
    assert lines[0] == "all_reduce of 256 MiB over 8 ranks of dgx-1-v100, predicted from links and latencies"
    assert lines[1].startswith("at least 3.02 ms: the 5 links into rank0")
    assert lines[4].split("  ")[0] == "ring" and "6 orders side by side" in lines[4] and lines[4].endswith("91 %")
    orders = lines[lines.index("ring takes the ranks in this order:") + 1 :]
    assert len(orders) == 6 and all(sorted(order.split()) == [*"01234567"] for order in orders)


def test_groups_of_hosts_are_shown(ringtree: Ringtree, tmp_path: Path) -> None:
    record = tmp_path / "found.json"
    where = ("--topology", "cluster:hosts=2", "-n", "12", "--bytes", "16M", "--algorithm", "split_tree,ring")
    lines = ringtree("search", "all_reduce", *where, "--json", str(record)).out.splitlines()
    assert lines[4].startswith("split_tree  group=6, 16 pieces   818 µs")
    assert [c["options"] for c in json.loads(record.read_text())["candidates"]] == [{"group": 6}, {}]


def test_options_go_to_the_algorithms_that_have_them(ringtree: Ringtree, tmp_path: Path) -> None:
    record = tmp_path / "found.json"
    where = ("--topology", "cluster:hosts=2", "-n", "12", "--bytes", "16M", "--algorithm", "hierarchical,ring")
    assert ringtree("search", "all_reduce", *where, "--option", "group=3", "--json", str(record)).code == 0
    found = {c["algorithm"]: c["options"] for c in json.loads(record.read_text())["candidates"]}
    assert found == {"hierarchical": {"group": 3}, "ring": {}}


def test_an_order_begins_at_the_root(ringtree: Ringtree) -> None:
    where = ("--topology", "torus:dims=3x3", "-n", "9", "--bytes", "1M")
    *_, last = ringtree("search", "broadcast", *where, "--root", "5", "--algorithm", "chain").out.splitlines()
    assert last.split()[0] == "5"


def test_no_better_order_is_stated(ringtree: Ringtree) -> None:
    got = ringtree("search", "barrier", "--topology", "dgx-h100")
    assert got.code == 0
    assert got.out.endswith("No order of the ranks that was tried is quicker for one_shot than theirs.\n")


def test_the_files_have_what_was_found(ringtree: Ringtree, tmp_path: Path) -> None:
    schedule, record = tmp_path / "found.txt", tmp_path / "found.json"
    where = ("--topology", "dgx-1-v100", "--gpus", "0,1,2,4,5,6", "--bytes", "64M", "--algorithm", "ring")
    got = ringtree("search", "all_reduce", *where, "--export", str(schedule), "--json", str(record))
    found = candidates("all_reduce", machine("dgx-1-v100").part((0, 1, 2, 4, 5, 6)), 64 * MIB, names=["ring"])
    assert got.code == 0 and load(schedule).schedule == found[0].schedule
    written = json.loads(record.read_text())
    assert (written["collective"], written["ranks"], written["nbytes"]) == ("all_reduce", 6, 64 * MIB)
    assert [c["time_us"] for c in written["candidates"]] == [c.seconds * 1e6 for c in found]
    assert written["candidates"][0]["orders"] == [list(order) for order in found[0].orders]
    assert 0 < written["bound_us"] <= written["candidates"][0]["time_us"]
    assert ringtree("simulate", str(schedule), "--topology", "dgx-1-v100", "--bytes", "64M").code == 0


def test_nothing_is_left_where_the_file_cannot_be_written(ringtree: Ringtree, tmp_path: Path) -> None:
    schedule, record = tmp_path / "found.xml", tmp_path / "found.json"
    where = ("--topology", "switch", "-n", "66", "--bytes", "64M", "--algorithm", "two_shot")
    got = ringtree("search", "all_reduce", *where, "--export", str(schedule), "--json", str(record))
    assert got.code == 1 and not schedule.exists() and not record.exists()


@pytest.mark.parametrize(
    "words, expected",
    [
        ("all_reduce --topology dgx-h100", "required: --bytes"),
        (
            "all_reduce --topology switch --bytes 1M --option gruop=2",
            "is compared has an option 'gruop': expected",
        ),
        ("all_reduce --topology switch --bytes 1M --option group=2.5", "--option: group: got 2.5; expected a whole"),
        ("all_reduce --topology dgx-h100 --bytes 1M --algorithm ring,", "ring,: an empty name; expected such as ring,"),
        ("all_reduce --topology dgx-h100 --bytes 1M,2M", "expected one size"),
        ("all_reduce --topology dgx-h100 --bytes 1M -n 4", "expected --nodes or --gpus for machines"),
        ("all_reduce --topology ring --bytes 1M -n 1", "is one rank, which sends nothing: expected two at least"),
        ("all_reduce --topology ring --bytes 1M --nodes 2", "--nodes applies to machines, not to ring"),
        ("all_reduce --topology dgx-h100 --nodes 2 --sharp --bytes 1M", "--sharp"),
        ("all_reduce --topology dgx-h100 --nodes 100 --bytes 1M", "800 ranks: expected at most 256 to search"),
        ("broadcast --topology dgx-h100 --bytes 1M --root 9", "root 9: expected a rank, 0..7"),
        ("all_reduce --topology dgx-h100 --bytes 1M --export found.dat", ".dat names no format"),
        ("all_reduce --topology dgx-h100 --bytes 1M --algorithm bruck", "bruck does not serve all_reduce"),
    ],
)
def test_a_mistake_is_one_line(ringtree: Ringtree, words: str, expected: str) -> None:
    got = ringtree("search", *words.split())
    assert got.code in (1, 2) and expected in got.err and got.err.count("\n") == 1 and not got.out


@pytest.mark.parametrize(("nbytes", "error"), [
    ("3", "--bytes 3: the vector of all_gather is a block for each of 7 ranks; expected at least 7 bytes"),
    ("0", "--bytes 0: nothing to move; expected at least 1 byte"),
])  # fmt: skip
def test_sizes_that_no_call_has_are_refused(ringtree: Ringtree, nbytes: str, error: str) -> None:
    got = ringtree("search", "all_gather", "--topology", "ring", "-n", "7", "--bytes", nbytes)
    assert (got.code, got.out) == (1, "") and error in got.err


def test_a_size_is_rounded_down_to_blocks(ringtree: Ringtree) -> None:
    lines = ringtree("search", "all_gather", "--topology", "ring", "-n", "7", "--bytes", "1000").out.splitlines()
    assert lines[0] == "# rounded down to 7 equal blocks: 1,000 to 994 bytes"
    assert lines[1].startswith("all_gather of 994 B over 7 ranks")
