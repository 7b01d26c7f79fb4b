"""`ringtree simulate`: output, files, and mistakes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ringtree.formats import chrome
from ringtree.ir.host_clocks import hosts_of
from ringtree.ir.host_links import crossing, host_links
from ringtree.ir.trace import Event
from ringtree.machines.catalogue import machine
from ringtree.machines.files import machine_json
from ringtree.topology import cluster, save
from tests.cli.conftest import Ringtree

RING = ["ring", "-n", "4", "--bytes", "64K"]


def test_time_path_and_links_are_printed(ringtree: Ringtree) -> None:
    """2 (n-1) hops of 2 us and 16 KiB over 25 GB/s."""
    got = ringtree("simulate", *RING)
    assert got.code == 0 and got.err == ""
    assert "ring all_reduce over 4 ranks, 65,536 bytes in 4 chunks" in got.out
    assert "on switch: 4 ranks, 1 switch, 8 links of 1 µs and 25 GB/s (default; set another with --topology)" in got.out
    assert "time 15.9 µs, algbw 4.11 GB/s, busbw 6.17 GB/s" in got.out
    assert re.search(r"\n  0 s  \+15.9 µs  6 times: message 16 KiB  \(rank \d → \d → … → \d\)\n", got.out)
    assert "24.7 %    96 KiB  rank0 -> switch and 7 others with the same load" in got.out
    assert "76 events simulated in" in got.out


def test_several_sizes_are_a_table(ringtree: Ringtree) -> None:
    out = ringtree("simulate", "binomial", "-n", "8", "--collective", "broadcast", "--bytes", "8,1M").out
    rows = [line.split() for line in out.splitlines() if not line.startswith("#")]
    assert [row[:6] for row in rows] == [
        ["8", "8", "byte", "none", "0", "6.00"],
        ["1048576", "1048576", "byte", "none", "0", "131.83"],
    ]


def test_a_machines_json_is_known_by_its_keys_in_any_order(ringtree: Ringtree, tmp_path: Path) -> None:
    rows = json.loads(machine_json.text(machine("dgx-h100").part(range(2))))
    path = tmp_path / "sorted.json"
    path.write_text(json.dumps(rows, sort_keys=True))
    got = ringtree("simulate", "ring", "-n", "2", "--bytes", "1M", "--topology", str(path))
    assert got.code == 0 and got.out.startswith("ring all_reduce over 2 ranks"), got.err


@pytest.mark.parametrize(
    ("words", "time"),
    [
        ("--straggler rank=3,delay=1ms", "1.02 ms"),
        ("--straggler rank=1,slowdown=2 --topology direct:latency=0s,step=1us", "18.8 µs"),
        ("--link 0-switch,factor=0.5", "17.2 µs"),
        ("--topology direct:latency=1us,bandwidth=16.384GB/s --link 0-1,failed", "14 µs"),
        ("--topology ring:latency=1us,bandwidth=16.384GB/s", "12 µs"),
        ("--slots 2", "15.9 µs"),
        ("--cut", "15.9 µs"),
    ],
)
def test_conditions_and_topologies(ringtree: Ringtree, words: str, time: str) -> None:
    got = ringtree("simulate", *RING, *words.split())
    assert got.code == 0 and f"time {time}," in got.out, got


def test_sizes_that_the_ranks_do_not_divide_are_rounded_first(ringtree: Ringtree) -> None:
    words = ("simulate", "ring", "-n", "8", "--collective", "all_gather", "--bytes")
    one = ringtree(*words, "9").out
    assert one.startswith("# rounded down to 8 equal blocks: 9 to 8 bytes\nring all_gather over 8 ranks, 8 bytes in")
    table = ringtree(*words, "16,9,23,1003").out
    assert "# rounded down to 8 equal blocks: 9 to 8 bytes, 23 to 16 bytes, 1,003 to 1,000 bytes\n" in table
    assert [line.split()[0] for line in table.splitlines() if line[0] != "#"] == ["16", "8", "1000"]
    assert "rounded" not in ringtree(*words, "16").out
    whole = ringtree("simulate", "ring", "-n", "8", "--bytes", "9").out
    assert whole.startswith("ring all_reduce over 8 ranks, 9 bytes")


IN_FOURS = ["hierarchical", "-n", "8", "--bytes", "1M", "--topology"]


@pytest.mark.parametrize(
    ("place", "words", "group", "noted"),
    [
        ("cluster:hosts=2", "", 4, True),
        ("cluster:hosts=2", "--cut", 4, True),
        ("cluster:hosts=2", "--option group=2", 2, False),
        ("cluster:hosts=2", "--cut --option group=2", 2, False),
        ("switch", "", 2, False),  # one host: the algorithm's own
    ],
)
def test_groups_are_the_hosts_unless_they_are_given(
    ringtree: Ringtree, place: str, words: str, group: int, noted: bool
) -> None:
    """The same question has the answer that `sweep` gives."""
    got, asked = ringtree("simulate", *IN_FOURS, place, *words.split()), f"group={group}: the ranks of a host"
    without_group = [word for word in words.split() if word == "--cut"]
    same = ringtree("simulate", *IN_FOURS, place, *without_group, "--option", f"group={group}")
    assert got.code == 0 and (asked in got.out) is noted, got
    times = [next(line for line in out.splitlines() if line.startswith("time ")) for out in (got.out, same.out)]
    assert times[0] == times[1]


def test_a_table_and_other_collectives_have_groups_of_hosts_too(ringtree: Ringtree) -> None:
    table = ringtree("simulate", *IN_FOURS, "cluster:hosts=2", "--bytes", "8,1M").out
    assert "# group=4: the ranks of a host (--option group=G sets another)" in table
    beside = ["--with", "hierarchical:all_reduce:1M"]
    ends = ringtree("simulate", *IN_FOURS, "cluster:hosts=2", *beside).out
    time = next(line for line in ends.splitlines() if line.startswith("time ")).split(",")[0].removeprefix("time ")
    assert f"concurrent hierarchical:all_reduce:1M ends at {time}" in ends


def test_chance_is_the_same_for_a_seed(ringtree: Ringtree) -> None:
    def time(seed: str) -> str:
        return ringtree("simulate", *RING, "--jitter", "0.5", "--seed", seed).out.splitlines()[2]

    assert time("7") == time("7") != time("8")


def test_another_collective_at_the_same_time(ringtree: Ringtree) -> None:
    alone = ringtree("simulate", *RING).out
    both = ringtree("simulate", *RING, "--with", "ring:all_reduce:64K", "--with", "chain:broadcast:8:1ms").out
    assert "time 15.9 µs," in alone and "time 19.9 µs," in both
    assert "concurrent ring:all_reduce:64K ends at 19.9 µs\n" in both
    assert "concurrent chain:broadcast:8:1ms ends at 1.01 ms\n" in both


def test_a_file_is_played(ringtree: Ringtree, tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(ringtree("show", "ring", "-n", "4").out)
    assert "time 15.9 µs," in ringtree("simulate", str(path), "--bytes", "64K").out
    for option in (["-n", "4"], ["--root", "0"], ["--cut"], ["--option", "a=1"]):
        assert "applies to algorithms, not to files" in ringtree("simulate", str(path), "--bytes", "64K", *option).err


def test_a_wrong_schedule_is_reported(ringtree: Ringtree, tmp_path: Path) -> None:
    path = tmp_path / "wrong.txt"
    path.write_text("schedule mine broadcast: 3 ranks, 1 chunks, root 0\nonce: 0 data[0] -> 1\n")
    ran = ringtree("simulate", str(path), "--bytes", "1M")
    assert "simulated although not proved: mine broadcast over 3 ranks: rank 2 chunk 0: expected" in ran.err
    assert "time " in ran.out


def test_trace_and_page_are_written(ringtree: Ringtree, tmp_path: Path) -> None:
    trace, page = tmp_path / "t.json.gz", tmp_path / "t.html"
    got = ringtree("simulate", *RING, "--trace", str(trace), "--html", str(page))
    assert got.code == 0 and str(trace) in got.out and str(page) in got.out
    read = chrome.read(trace)
    assert len(read) == 76 and read.facts["source"] == "simulated"
    assert '"views":["schedule","trace"]' in page.read_text(), "on one page"


def test_a_page_has_the_schedules_part_of_a_larger_topology(ringtree: Ringtree, tmp_path: Path) -> None:
    eight, page = tmp_path / "eight.json", tmp_path / "t.html"
    save(cluster(4, 2), eight)
    words = f"simulate ring -n 4 --bytes 1M --topology {eight} --html {page}"
    got = ringtree(*words.split())
    assert (got.code, got.err) == (0, "") and '"hosts":[0,0,1,1]' in page.read_text()


def test_constants_come_from_a_trace(ringtree: Ringtree, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    ringtree(
        "simulate",
        *RING,
        "--topology",
        "direct:latency=1us,bandwidth=inf,message=100ns,copy=1GB/s",
        "--trace",
        str(path),
    )
    out = ringtree("simulate", *RING, "--topology", f"trace:{path}").out
    assert "12 links of 1.1 µs; a rank's copy 1 GB/s" in out  # all were waited for: one end's 100 ns are in the latency


def test_on_a_measured_machine_a_cut_schedule_runs_as_the_engine_runs_it(ringtree: Ringtree, tmp_path: Path) -> None:
    """The bytes and the messages of a measured call are those of its simulation."""
    real, played = tmp_path / "real.json", tmp_path / "played.json"
    ringtree(*f"bench all_reduce -n 2 -b 4M -e 4M --iters 1 --algorithm ring --trace {real}".split())
    ringtree(*f"simulate ring -n 2 --bytes 4M --cut --in-place --topology trace:{real} --trace {played}".split())
    measured, simulated = chrome.read(real), chrome.read(played)
    assert (measured.sent_nbytes() == simulated.sent_nbytes()).all()
    for kind in (Event.SEND, Event.COPY, Event.REDUCE):
        assert sorted(measured.nbytes[measured.kind == kind]) == sorted(simulated.nbytes[simulated.kind == kind])


MISTAKES = [
    ("ring", "required: --bytes"),
    ("ring --bytes big", "'big' is not a size"),
    ("ring --bytes 99999999999999999999999", "1e+23 bytes; expected at most 1125899906842624"),
    ("ring -n 8 --collective all_gather --bytes 3", "block for each of 8 ranks; expected at least 8 bytes"),
    ("ring -n 0 --collective all_gather --bytes 3", "over 0 ranks: expected at least 1"),
    ("nothing --bytes 8", "'nothing' is neither an algorithm nor a file"),
    ("ring --bytes 8 -n 0", "over 0 ranks: expected at least 1"),
    ("ring --bytes 8 -n 1000000000", "1000000000 ranks: expected at most 1048576"),
    ("ring --bytes 8 --topology mesh", "no shape of that name (direct, switch, ring, torus, cluster), and"),
    ("ring --bytes 8 --topology torus:dims=3x3", "expected dims= whose product is 8"),
    ("ring --bytes 8 --topology switch:latency=5", "'5' is no time; expected such as 5us"),
    ("ring --bytes 8 --topology missing.json", "missing.json: no such file"),
    ("ring --bytes 8 --topology trace:missing.json", "missing.json"),
    ("ring --bytes 8 --straggler 3", "--straggler '3': expected such as rank=3,delay=1ms"),
    ("ring --bytes 8 --straggler rank=8,delay=1ms", "delay_s of rank 8: expected a rank of 0..7"),
    ("ring --bytes 8 --straggler rank=1,delay=1", "expected such as rank=3,delay=1ms"),
    ("ring --bytes 8 --straggler rank=1,rank=2,delay=1s", "expected such as rank=3,delay=1ms"),
    (
        "ring --bytes 8 --straggler rank=1,delay=1e300s",
        "delay_s of rank 1 is 1e+300; expected at least 0, at most 1e+09",
    ),
    ("ring --bytes 8 --straggler rank=1,slowdown=0", "slowdown of rank 1 is 0.0; expected more than 0"),
    ("ring --bytes 8 --link 0-1,failed", "switch has no link from rank0 to rank1"),
    ("ring --bytes 8 --link 0-9,failed", "expected two nodes of switch, such as rank0-switch"),
    ("ring --bytes 8 --link 0-switch", "expected such as 0-1,factor=0.5"),
    ("ring --bytes 8 --link 0-switch,factor=-1", "expected such as 0-1,factor=0.5"),
    ("ring --bytes 8 --link 0-switch,failed", "rank 0"),
    ("ring --bytes 8 --with ring", "expected ALGORITHM:COLLECTIVE:BYTES[:START]"),
    ("ring --bytes 8 --with ring:broadcast:8", "ring does not serve broadcast"),
    ("ring --bytes 8 --link 0-switch,factor=1e-300", "is 1e-300; expected 0, or 1e-09 to 1e+09"),
    ("ring --bytes 8 --with ring:all_reduce:8:1e300s", "job 1 starts at 1e+300 s; expected at least 0, at most 1e+09"),
    ("ring --bytes 8 --jitter 1e300", "jitter is 1e+300; expected at least 0, at most 1e+09"),
    ("ring --bytes 8 --jitter -1", "jitter is -1.0; expected at least 0"),
    ("ring --bytes 8 --jitter 0.5 --seed -1", "--seed -1: expected at least 0"),
    ("ring --bytes 8 --seed 3", "--seed applies to --jitter: expected such as --jitter 0.1 as well"),
    ("ring --bytes 8 --seed 0", "--seed applies to --jitter"),
    (
        "ring --bytes 8 --straggler rank=1,delay=1ms --straggler rank=1,delay=2ms",
        "--straggler 'rank=1,delay=2ms': rank 1 has a delay already; expected one a rank",
    ),
    ("ring --bytes 8 --straggler rank=1,slowdown=2 --straggler rank=01,slowdown=2", "rank 1 has a slowdown already"),
    (
        "ring --bytes 8 --link 0-switch,factor=0.5 --link rank0-switch,factor=0.25",
        "--link 'rank0-switch,factor=0.25': this link has a factor already; expected one a link",
    ),
    ("ring --bytes 8 --slots 0", "slots is 0; expected at least 1"),
    ("ring --bytes 8 --cut --in-place", "--in-place applies to the engine's own windows"),
    (
        "chain --bytes 8 --cut --option pieces=2",
        "--option pieces: the cut for a size chooses pieces itself; leave it out",
    ),
    ("ring --bytes 8,64 --trace t.json", "t.json can contain one simulation only; expected one size in --bytes"),
    ("ring --bytes 8 --trace missing/t.json", "no such folder to write to"),
    ("dissemination --bytes 1M", "--bytes: a barrier moves no data; leave it out"),
    ("ring --bytes 8 --with dissemination:barrier:8", "a barrier moves no data; expected 0 for its bytes"),
    ("ring --bytes 8 --html .", "is a folder; expected a file to write to"),
]


@pytest.mark.parametrize(("words", "expected"), MISTAKES, ids=[words for words, _ in MISTAKES])
def test_a_mistake_is_one_line(ringtree: Ringtree, words: str, expected: str) -> None:
    got = ringtree("simulate", *words.split())
    assert got.code in (1, 2) and got.out == ""
    assert expected in got.err and "internal error" not in got.err and len(got.err.splitlines()) == 1


def test_a_barrier_has_no_size(ringtree: Ringtree, tmp_path: Path) -> None:
    file = tmp_path / "barrier.txt"
    file.write_text(ringtree("show", "dissemination", "-n", "4").out)
    for words in (["dissemination", "-n", "4"], [str(file)]):
        got = ringtree("simulate", *words, "--trace", str(tmp_path / "t.json"))
        assert got.err == "" and "barrier over 4 ranks, 0 bytes" in got.out and "time 4 µs" in got.out
    got = ringtree("simulate", str(file), "--bytes", "8")
    assert (got.code, got.err.count("a barrier moves no data")) == (1, 1)


HOSTS = ["ring", "--hosts", "2,1", "--rate", "2gbit", "--latency", "50us"]


def test_ranks_on_hosts_meet_a_network_between_them(ringtree: Ringtree, tmp_path: Path) -> None:
    """Pieces of 64 KiB over 250 MB/s and 50 us, and 6 us of work at either end."""
    got = ringtree("simulate", *HOSTS, "--bytes", "192K", "--trace", str(tmp_path / "t.json"))
    assert got.code == 0 and got.err == ""
    assert "on 3 ranks on 2 hosts: 3 ranks, 5 switches" in got.out and "away message 6 µs" in got.out
    trace = chrome.read(tmp_path / "t.json")
    assert hosts_of(trace).tolist() == [0, 0, 1]
    links = {(link.source, link.target): link for link in host_links(trace)}
    assert {ends: link.nbytes for ends, link in links.items()} == {(0, 1): 4 << 16, (1, 0): 4 << 16}
    away = crossing(trace)
    assert (trace.end_s - trace.start_s)[away].min() == pytest.approx((1 << 16) / 250e6 + 50e-6, rel=0.01)
    sends = trace.take(trace.kind == Event.SEND)
    first_s = [sends.start_s[sends.rank == rank].min() for rank in range(3)]
    assert [first_s[rank] - first_s[0] for rank in (1, 2)] == pytest.approx([6e-6, 6e-6])
    assert re.search(r"message between hosts 64 KiB", got.out)


def test_calls_over_hosts_pass_in_the_engines_windows(ringtree: Ringtree, tmp_path: Path) -> None:
    """A chunk of 4 MiB, of which a slot holds 128 KiB."""
    counts = {}
    for words in ((), ("--cut", "--in-place")):
        ringtree("simulate", *HOSTS, "--bytes", "12M", *words, "--trace", str(tmp_path / "t.json"))
        counts[words] = host_links(chrome.read(tmp_path / "t.json"))[0].messages
    assert counts["--cut", "--in-place"] == 32 * counts[()] == 32 * 4


def test_cores_that_hosts_share_are_slower(ringtree: Ringtree) -> None:
    out = [ringtree("simulate", "ring", "--hosts", "40,40", "--bytes", "1M", *w).out for w in ((), ("--share-cores",))]
    costs = [float(re.findall(r"away message ([\d.]+) µs", text)[0]) for text in out]
    assert costs[1] == pytest.approx(2 * costs[0], rel=0.01)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--rate 2gbit", "--rate applies to --hosts: expected such as --hosts 2,2,2 as well"),
        ("--share-cores", "--share-cores applies to --hosts"),
        ("--hosts 2,2 -n 6", "--hosts 2,2 has 4 ranks, and -n/--ranks 6: expected the same"),
        ("--hosts 2,2 --topology switch", "--hosts and --topology are two places: expected one of them"),
        ("--hosts 2,2 --in-place", "--in-place applies to the engine's own windows: expected --cut"),
        ("--hosts 2,x", "expected the number of ranks on each host, such as 2,2,2"),
        ("--hosts 2,2 --rate fast", "--rate 'fast': expected such as 2gbit"),
        ("--hosts 2,2 --latency 5", "--latency '5': expected more than 0"),
    ],
)
def test_mistakes_with_hosts_are_one_line(ringtree: Ringtree, words: str, expected: str) -> None:
    got = ringtree("simulate", "ring", "--bytes", "64K", *words.split())
    assert got.code == 1 and expected in got.err and got.err.count("\n") == 1, got
