"""ringtree sweep: the table, the crossover, the plot, the record, the page."""

import json
import sys
from types import ModuleType

import numpy as np
import pytest

from ringtree.algorithms import REGISTRY
from ringtree.algorithms.cost import S, cost, n
from ringtree.algorithms.registry import read
from ringtree.bench.record import read as read_record
from ringtree.cli import main
from ringtree.cli.sweep import whole_node_counts
from ringtree.cli.sweep.table import SweepLine, lines
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.price import LowerBound
from ringtree.topology import cluster, save


def sweep(capsys, *words):
    assert main(["sweep", *words]) == 0
    return capsys.readouterr().out


def test_over_sizes(capsys):
    found = sweep(capsys, "all_reduce", "--topology", "dgx-h100", "--nodes", "4", "--bytes", "1K:1G:32")
    assert "32 ranks: time by algorithm" in found
    rows = [line.split() for line in found.splitlines() if line.strip()[:1].isdigit() and "┤" not in line]
    assert [row[0] for row in rows[:5]] == [str(1024 * 32**k) for k in range(5)]
    assert "# fastest: " in found
    assert "# lower bound at 1 GiB: 4.32 ms, the 2 links into rank0" in found
    assert "└─" in found


def test_over_ranks(capsys):
    found = sweep(capsys, "all_reduce", "--topology", "dgx-h100", "--ranks", "2:100", "--bytes", "1M,64M")
    assert found.count("time by algorithm") == 2
    assert [line.split()[0] for line in found.splitlines() if line.strip()[:1].isdigit() and "┤" not in line][:7] == [
        "2", "4", "8", "16", "32", "64", "96",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "words, expected",
    [
        ("--topology dgx-h100 --ranks 12,16,20", ["whole nodes of 8 ranks, not 12, 20", "without NCCL's channels"]),
        ("--topology dgx-h100 --ranks 4,16", ["without NCCL's channels"]),
        ("--topology ring --ranks 12", []),
        ("--topology cpu-2s --nodes 2", []),
    ],
)
def test_notes_come_first(capsys, words, expected):
    found = sweep(capsys, "all_reduce", *words.split(), "--bytes", "1M").splitlines()
    notes = found[1 : 1 + len(expected)]
    assert all(note.startswith("# ") and text in note for note, text in zip(notes, expected, strict=True))
    assert not any("NCCL" in line or "whole nodes" in line for line in found[1 + len(expected) :])


def test_the_best_by_size_and_ranks(capsys):
    found = sweep(capsys, "all_reduce", "--topology", "switch", "--ranks", "2,8,64", "--bytes", "8:1M")
    assert "# fastest algorithm, by size (down) and ranks (across)" in found
    assert "parameter_server" in found


def test_over_infinite_links(capsys):
    found = sweep(capsys, "all_reduce", "--topology", "ring:bandwidth=inf", "--ranks", "4", "--bytes", "8,1G")
    assert "# lower bound at 1 GiB: 2 µs, latency" in found


@pytest.mark.parametrize("ranks", ["4", "4,8"])
def test_a_barrier_has_no_sizes(capsys, tmp_path, ranks):
    file = tmp_path / "rows.json"
    found = sweep(capsys, "barrier", "--topology", "ring", "--ranks", ranks, "--json", str(file))
    assert "# lower bound at" in found and "µs, latency" in found
    rows = read_record(file)["rows"]
    assert len(rows) == 3 * len(ranks.split(",")) and {row["nbytes"] for row in rows} == {0}


def test_one_rank_takes_no_time(capsys, tmp_path):
    """The record, which `report` reads, has no row of it."""
    file = tmp_path / "rows.json"
    found = sweep(
        capsys, "all_reduce", "--topology", "dgx-h100", "--ranks", "1,2", "--bytes", "1M", "--json", str(file)
    )
    assert "from 1 rank" in found
    assert {row["ranks"] for row in read_record(file)["rows"]} == {2}


def test_groups_are_hosts(capsys):
    """A hierarchical broadcast crosses the network once."""
    words = (
        "--topology",
        "cluster:hosts=4,latency=100us",
        "--ranks",
        "32",
        "--bytes",
        "8",
        "--algorithm",
        "hierarchical",
    )
    found = sweep(capsys, "broadcast", *words).splitlines()
    assert found[1] == "# hierarchical with group=8: the ranks of a host"
    assert 200 < float(found[6].split()[1]) < 250


def test_a_file_of_links(capsys, tmp_path):
    path = tmp_path / "links.json"
    save(cluster(2, 4), str(path))
    words = ["sweep", "all_reduce", "--topology", str(path), "--bytes", "1M", "--algorithm", "ring,hierarchical"]
    assert main(words) == 0
    of_file = capsys.readouterr().out
    assert "# hierarchical with group=4: the ranks of a host" in of_file
    assert main([*words[:3], "cluster:hosts=2", *words[4:]]) == 0
    assert of_file.splitlines()[-8:] == capsys.readouterr().out.splitlines()[-8:]
    assert main([*words, "-n", "4"]) == 1
    assert "links.json has 8 ranks; leave -n/--ranks out" in capsys.readouterr().err


def test_options_go_to_the_algorithms_that_have_them(capsys):
    words = ("all_reduce", "--topology", "cluster:hosts=2", "-n", "12", "--bytes", "16M")
    words += ("--algorithm", "ring,hierarchical")
    of_hosts, of_three = (sweep(capsys, *words, *more) for more in ((), ("--option", "group=3")))
    assert "# hierarchical with group=6: the ranks of a host" in of_hosts
    assert "# hierarchical with group=3\n" in of_three
    rows = [next(line.split() for line in out.splitlines() if "16777216" in line) for out in (of_hosts, of_three)]
    assert rows[0][1] == rows[1][1] and float(rows[0][2]) < float(rows[1][2])


def test_groups_on_one_host_are_the_algorithms_own(capsys):
    """In groups of all the ranks it would be a ring."""
    row = sweep(capsys, "all_reduce", "--topology", "switch", "--bytes", "1M", "--algorithm", "ring,hierarchical")
    ring, nested = row.splitlines()[5].split()[1:3]
    assert "group=" not in row and ring != nested


def test_nccl_tests_names_are_understood(capsys):
    words = ("--topology", "dgx-h100", "--bytes", "1M")
    assert sweep(capsys, "allreduce", *words) == sweep(capsys, "all_reduce", *words)


def test_all_algorithms(capsys):
    found = sweep(capsys, "all_gather", "--topology", "ring", "--ranks", "8", "--bytes", "1K,1M", "--algorithm", "all")
    for name in ("ring", "bruck", "pat", "swing"):
        assert name in found


def test_sizes_are_in_order_and_once(capsys):
    """However they are typed: times, changes and the last row's bound."""
    words = (
        "all_reduce",
        "--topology",
        "ring",
        "--ranks",
        "4",
        "--algorithm",
        "one_shot,recursive_doubling",
        "--bytes",
    )
    assert sweep(capsys, *words, "1M,8,64K,1M") == sweep(capsys, *words, "8,64K,1M")


@pytest.mark.slow
def test_a_hundred_thousand_ranks(capsys):
    found = sweep(capsys, "all_reduce", "--topology", "dgx-h100", "--nodes", "12500", "--bytes", "8:8G:1024")
    assert "100,000 ranks" in found
    assert "hierarchical from" in found


def test_the_record_and_the_page(capsys, tmp_path):
    record, html = tmp_path / "rows.json", tmp_path / "sweep.html"
    words = ("all_reduce", "--topology", "cluster:hosts=2", "--ranks", "4,8", "--bytes", "1K:1M:32")
    sweep(capsys, *words, "--json", str(record), "--html", str(html))
    rows = read_record(record)["rows"]
    assert {(r["ranks"], r["nbytes"]) for r in rows} == {(n, b) for n in (4, 8) for b in (1 << 10, 1 << 15, 1 << 20)}
    assert all(0 < r["bound_fraction"] <= 1 and r["time_us"] > 0 for r in rows)
    assert "<html" in html.read_text()
    assert json.loads(record.read_text())["machine"]["topology"] == "cluster:hosts=2"


def test_a_new_algorithm_is_priced_by_its_name_alone(capsys, monkeypatch):
    """No line in price or cli knows of it."""

    @cost(2, (n - 1) * S)
    def all_reduce(ranks):
        rank = np.arange(1, ranks)
        up, down = Transfers.of(rank, 0, reduce=True), Transfers.of(0, rank)
        return Schedule("star", "all_reduce", ranks, 1, (Block(up), Block(down)) if ranks > 1 else ())

    module = ModuleType("ringtree.algorithms.star", "Star: all to one.")
    module.SOURCE, module.WHEN = "Nobody: Nothing, 2026", "never."
    all_reduce.__module__ = module.__name__
    module.all_reduce = all_reduce
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(REGISTRY.modules, "star", "star")
    monkeypatch.setitem(REGISTRY.loaded, "star", read(module))
    words = ("all_reduce", "--topology", "switch:latency=1us,bandwidth=1GB/s", "--ranks", "3", "--bytes", "1000")
    assert "6.00" in sweep(capsys, *words, "--algorithm", "star").split()  # 2 paths of 1 us, and 2 vectors of 1 us


@pytest.mark.parametrize(
    ("text", "each", "expected"),
    [
        ("2:20", 8, [2, 4, 8, 16]),
        ("2:100000", 1, [*(2**k for k in range(1, 17)), 100_000]),
        ("1:1000:10", 4, [1, 8, 100, 1000]),
        ("6,2", 8, [2, 6]),
    ],
)
def test_rank_counts(text, each, expected):
    assert whole_node_counts(text, each) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("all_reduce --topology switch --ranks 0:4", "-n/--ranks 0:4: expected such as 64, 2,8,64 or 2:100000"),
        ("all_reduce --topology switch --algorithm ring,", "--algorithm ring,: an empty name; expected such as ring,"),
        ("all_reduce --topology switch --algorithm bruck", "--algorithm bruck: does not serve all_reduce"),
        ("barrier --topology switch --bytes 1M", "--bytes: a barrier moves no data; leave it out"),
        ("all_reduce --topology switch --bytes 0", "--bytes 0: 0 bytes"),
        (f"all_reduce --topology dgx-a100 --ranks {','.join(map(str, range(1, 99)))}", "expected such as 64"),
        ("all_reduce --topology dgx-h100 --nodes 1048576", "8,388,608 ranks; expected at most 1,048,576"),
        ("all_reduce --topology switch --option gruop=2", "no algorithm that is compared has an option 'gruop'"),
        ("all_reduce --topology switch --algorithm hierarchical --option group=2.5", "hierarchical: group: got 2.5;"),
        ("al_reduce --topology switch", "no collective 'al_reduce'"),
        ("all_reduce --topology switch --ranks 9999 --algorithm two_shot", "more than 4,194,304 transfers"),
        ("all_reduce --topology nothing", "nothing"),
        ("all_reduce --topology ring --nodes 4 --gpus 3", "--nodes applies to machines, not to the shape ring"),
        (
            "all_reduce --topology torus:dims=2x2 --sharp --ranks 4",
            "--sharp applies to machines, not to the shape torus",
        ),
        ("all_reduce --topology dgx-h100 --nodes 2 --ranks 64", "--nodes and -n/--ranks both name a number of nodes"),
        ("all_reduce --topology switch --json /nowhere/x.json", "no such folder to write to"),
    ],
)
def test_mistakes(capsys, words, expected):
    assert main(["sweep", *words.split()]) != 0
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1


def test_the_best_changes_where_straight_lines_cross():
    """On logarithmic axes: 1 to 64 s against 4 s, between 1 and 64 KiB."""
    bound = LowerBound(1.0, 1.0, 1.0, "a link")
    cases = [
        SweepLine("all_reduce", 4, nbytes, {"one": s, "other": 4.0}, bound)
        for nbytes, s in ((1 << 10, 1.0), (1 << 16, 64.0))
    ]
    text = "".join(span.text + "\n" for line in lines("any", cases) for span in line)
    assert "# fastest: one from 1 KiB, other from 4 KiB" in text
