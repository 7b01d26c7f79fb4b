"""`ringtree plan` for a cluster: its table, its records, its files for NCCL, and mistakes."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from ringtree.machines.channels import Pattern
from ringtree.nccl.files import graph_xml, tuner_csv
from tests.cli.conftest import Ringtree

FOUR = ["plan", "all_reduce", "--topology", "dgx-h100", "--nodes", "4"]


def rows(out: str) -> list[list[str]]:
    """The table's lines, in cells."""
    return [line.split() for line in out.splitlines() if line and not line.startswith("#")]


def test_a_table_in_nccl_tests_manner(ringtree: Ringtree) -> None:
    got = ringtree(*FOUR, "--bytes", "8:8G")
    assert got.code == 0 and got.err == ""
    table = rows(got.out)
    assert [int(row[0]) for row in table] == [8 << k for k in range(31)]
    times = [float(row[4]) for row in table]
    assert times[0] > 0 and times[-1] > 10 * times[-5]
    assert all(0 < int(row[8].rstrip("%")) <= 100 for row in table)
    assert "# on dgx-h100 x4: 8 GPUs a node, 8 NICs of 50 GB/s (400 Gb/s), infiniband over rails" in got.out
    assert "of bound; bottleneck: " in got.out and "# lower bound " in got.out


def test_records_hold_the_tables_values(ringtree: Ringtree, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    out = ringtree(*FOUR, "--bytes", "1K,64M", "--json", str(file)).out
    found = json.loads(file.read_text())["rows"]
    keys = [
        "nbytes",
        "algorithm",
        "protocol",
        "channels",
        "time_us",
        "low_us",
        "high_us",
        "algbw_GBps",
        "busbw_GBps",
        "bound_us",
        "bound_fraction",
        "bound_bottleneck",
        "bottleneck",
        "unknowns",
        "picked",
    ]
    assert [list(row) for row in found] == [keys, keys]
    for row, shown in zip(found, rows(out), strict=True):
        assert [str(row[k]) for k in keys[:4]] == shown[:4]
        assert row["time_us"] == pytest.approx(float(shown[4]), rel=0.01)
        assert row["busbw_GBps"] == pytest.approx(row["algbw_GBps"] * 2 * 31 / 32)
        assert row["algbw_GBps"] == pytest.approx(row["nbytes"] / row["time_us"] / 1e3)


def test_an_earlier_release_has_fewer_algorithms(ringtree: Ringtree, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    given = ("plan", "all_reduce", "--topology", "dgx-h100", "--bytes", "1G", "--json", str(file))
    assert "nvls/simple at 1 GiB" in ringtree(*given).out
    out = ringtree(*given, "--nccl", "2.16.5").out
    assert "8 GPUs a node, NCCL 2.16" in out and "ring/simple at 1 GiB" in out
    assert json.loads(file.read_text())["cluster"]["nccl"] == "2.16"


@pytest.mark.parametrize(
    ("topology", "nccl", "why"),
    [
        ("dgx-h100", "2.x", "--nccl: NCCL '2.x': expected a release such as 2.27 or 2.27.7"),
        ("dgx-h100", "2.3", "--nccl: NCCL 2.3: expected 2.4 or later, of 2"),
        ("mi300x8", "2.27", "--nccl 2.27: mi300x8 runs RCCL; leave it out"),
    ],
)
def test_a_release_that_is_none_is_refused(ringtree: Ringtree, topology: str, nccl: str, why: str) -> None:
    result = ringtree("plan", "all_reduce", "--topology", topology, "--nccl", nccl)
    assert (result.code, result.out, result.err) == (1, "", f"ringtree plan: {why}\n")


def test_the_record_has_the_cluster_and_the_links_that_bind(ringtree: Ringtree, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    out = ringtree(*FOUR, "--gpus", "4", "--nics", "4x200Gb", "--bytes", "8,8G", "--json", str(file)).out
    found = json.loads(file.read_text())
    assert found["collective"] == "all_reduce"
    assert found["cluster"] == {
        "name": "dgx-h100 x4", "machine": "dgx-h100", "nodes": 4, "ranks": 16, "gpus_per_node": 4,
        "gpu_models": ["H100 SXM5"], "nics_per_node": 4, "nic_GBps": [25.0], "fabric": "infiniband",
        "network": "rails", "oversubscription": 1.0, "sharp": False, "nccl": None,
    }  # fmt: skip
    cut = found["cut"]
    assert cut["links"] == [f"rail{k} -> node0/nic{k}" for k in range(4)] and cut["link_count"] == cut["alike"] == 4
    assert cut["GBps"] == pytest.approx(4 * 25 * 0.9937, rel=1e-3) and cut["words"] in out
    small, large = found["rows"]
    assert (small["bound_bottleneck"], large["bound_bottleneck"]) == ("latency", cut["words"])
    assert large["bound_us"] == pytest.approx(large["time_us"] * large["bound_fraction"])


def test_the_record_of_one_node_has_no_network_and_names_few_of_many_links(ringtree: Ringtree, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    ringtree("plan", "all_reduce", "--topology", "dgx-a100", "--bytes", "1G", "--json", str(file))
    cluster = json.loads(file.read_text())["cluster"]
    assert (cluster["nodes"], cluster["fabric"], cluster["network"]) == (1, None, None)
    wide = ["plan", "all_to_all", "--topology", "gb200-nvl72", "--bytes", "1G", "--json", str(file)]
    assert ringtree(*wide).code == 0
    cut = json.loads(file.read_text())["cut"]
    assert len(cut["links"]) == min(cut["link_count"], 64)


def test_a_cut_of_infinite_bandwidth_has_no_number(ringtree: Ringtree, tmp_path: Path) -> None:
    machine, file = tmp_path / "pair.json", tmp_path / "rows.json"
    link = {"kind": "nvlink", "bandwidth_Bps": "inf"}
    ends = [("gpu0", "gpu1"), ("gpu1", "gpu0")]
    devices = [{"name": name, "kind": "gpu", "model": "H100"} for name, _ in ends]
    links = [{"source": source, "target": target, **link} for source, target in ends]
    machine.write_text(json.dumps({"machine": "pair", "devices": devices, "links": links}))
    got = ringtree("plan", "all_reduce", "--topology", str(machine), "--bytes", "1G", "--json", str(file))
    assert (got.code, got.err) == (0, "") and "# lower bound" in got.out
    found = json.loads(file.read_text())
    assert found["cut"]["GBps"] is None and found["rows"][0]["bound_bottleneck"] == "latency"


def test_the_interval_is_in_the_table_and_in_json(ringtree: Ringtree, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    out = ringtree(*FOUR, "--bytes", "1K,8G", "--json", str(file)).out
    for row, shown in zip(json.loads(file.read_text())["rows"], rows(out), strict=True):
        assert row["low_us"] < row["time_us"] < row["high_us"] and row["unknowns"]
        less, more = (100 * (row[end] / row["time_us"] - 1) for end in ("low_us", "high_us"))
        assert shown[5] == f"{less:.0f}/+{more:.0f}%"
    assert "# interval at 8 GiB, widest unknown: " in out
    assert "measured systems of this class: all_reduce of Hopper GPUs over NVLink and infiniband" in out
    other = ringtree("plan", "broadcast", "--topology", "aws-p4d", "--nodes", "2", "--bytes", "1M").out
    assert (
        "# no measured system of this class was compared (broadcast of GPUs of Ampere or Ada over NVLink and efa)"
        in other
    )


def test_nccls_own_estimate_is_without_an_interval(ringtree: Ringtree, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    out = ringtree(*FOUR, "--bytes", "1M", "--model", "nccl", "--json", str(file)).out
    assert rows(out)[0][5] == "-" and "interval at" not in out
    (row,) = json.loads(file.read_text())["rows"]
    assert (row["low_us"], row["high_us"], row["unknowns"]) == (None, None, [])


def test_traps_of_a_file_stand_above_the_table_and_in_the_record(ringtree: Ringtree, tmp_path: Path) -> None:
    slot = '<pci busid="0000:0{}:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32 GT/s" '
    gpus = "".join(
        f'{slot.format(n)}link_width="16"><gpu dev="{n}" sm="90" rank="{n}"><nvlink target="0000:0{1 - n}:00.0" '
        'count="1000" tclass="0x030200"/></gpu></pci>'
        for n in range(2)
    )
    machine, record = tmp_path / "topo.xml", tmp_path / "rows.json"
    machine.write_text(f'<system version="1"><cpu numaid="0">{gpus}</cpu></system>')
    out = ringtree("plan", "all_reduce", "--topology", str(machine), "--bytes", "1M", "--json", str(record)).out
    words = "gpu0 at 0000:00:00.0, gpu1 at 0000:01:00.0: 1000 links to others, and H100 SXM5 has 18"
    assert f"# trap: {words}: " in out
    assert [text.startswith(words) for text in json.loads(record.read_text())["traps"]] == [True]


def test_parts_that_no_table_knows_stand_above_the_table_and_in_the_record(ringtree: Ringtree, tmp_path: Path) -> None:
    slot = '<pci busid="0000:0{}:00.0" class="0x030200" vendor="0x10de" device="0x9999" link_speed="32 GT/s" '
    inside = "".join(f'{slot.format(n)}link_width="16"/>' for n in range(2))
    machine, record = tmp_path / "topo.xml", tmp_path / "rows.json"
    machine.write_text(f'<system version="1"><cpu numaid="0">{inside}</cpu></system>')
    words = "gpu0 at 0000:00:00.0, gpu1 at 0000:01:00.0: [10de:9999] is in no table: its model and links are left open"
    plan = ["plan", "all_reduce", "--topology", str(machine), "--bytes", "1M", "--json", str(record)]
    out = ringtree(*plan).out
    assert f"# not known: {words}; assume gpu=MODEL\n" in out
    assert "all_reduce of GPUs of unknown generation over the host's memory, without peer to peer" in out
    assert json.loads(record.read_text())["not_known"] == [f"{words}; assume gpu=MODEL"]
    assert "not known" not in ringtree(*plan, "--assume", "gpu=h100-pcie").out
    assert json.loads(record.read_text())["not_known"] == []
    shown = ringtree("topo", "show", str(machine), "--json", str(tmp_path / "machine.json"))
    assert shown.code == 0
    notes = json.loads((tmp_path / "machine.json").read_text())["notes"]
    assert [n["about"] for n in notes if n["kind"] == "unknown"] == ["gpu0 at 0000:00:00.0, gpu1 at 0000:01:00.0"]


def test_a_plan_far_from_the_bound_gives_the_reason(ringtree: Ringtree, tmp_path: Path) -> None:
    record = tmp_path / "rows.json"
    far = ["plan", "all_reduce", "--topology", "gh200x4", "--nodes", "2", "--gpus", "1", "--bytes", "1G"]
    assert "# far from the bound: its channels use 1 of 4 NICs" in ringtree(*far, "--json", str(record)).out
    assert "1 of 4 NICs" in json.loads(record.read_text())["far_from_bound"][0]
    near = ringtree(*far, "--nics", "1x200Gb", "--json", str(record))
    assert "far from" not in near.out and json.loads(record.read_text())["far_from_bound"] == []


def test_all_shows_every_candidate_and_marks_the_pick(ringtree: Ringtree, tmp_path: Path) -> None:
    words, file = ("plan", "all_reduce", "--topology", "dgx-a100", "--bytes", "1M", "--all"), tmp_path / "all.json"
    out = ringtree(*words, "--json", str(file)).out
    written = json.loads(file.read_text())["rows"]
    assert [[row["algorithm"], row["protocol"]] for row in written] == [row[1:3] for row in rows(out)]
    assert [row["picked"] for row in written] == ["<-" in row for row in rows(out)]
    assert {row[1] for row in rows(out)} == {"ring", "tree"}
    assert out.count("<- NCCL's choice") == 1
    times = [float(row[4]) for row in rows(out)]
    assert times == sorted(times)


def test_an_algorithm_and_a_protocol_can_be_forced(ringtree: Ringtree) -> None:
    out = ringtree(*FOUR, "--bytes", "8:8G:64", "--algorithm", "ring", "--protocol", "simple").out
    assert {(row[1], row[2]) for row in rows(out)} == {("ring", "simple")}


def test_forced_names_may_be_spelt_as_in_nccl(ringtree: Ringtree) -> None:
    ours = ringtree(*FOUR, "--bytes", "64M", "--algorithm", "nvls_tree", "--protocol", "simple").out
    assert ringtree(*FOUR, "--bytes", "64M", "--algorithm", "NVLSTree", "--protocol", "Simple").out == ours


def test_first_and_last_size_are_as_in_bench(ringtree: Ringtree) -> None:
    assert [row[0] for row in rows(ringtree(*FOUR, "-b", "1M", "-e", "2M").out)] == ["1048576", "2097152"]
    assert len(rows(ringtree(*FOUR, "-f", "64").out)) == 6


def test_part_of_a_machine_and_other_nics(ringtree: Ringtree) -> None:
    half = ringtree("plan", "all_reduce", "--topology", "dgx-h100", "--gpus", "4", "--bytes", "1G").out
    assert "over 4 ranks" in half
    slow, quick = (
        float(rows(ringtree(*FOUR, "--nics", nics, "--bytes", "8G").out)[0][7]) for nics in ("8x100Gb", "8x200Gb")
    )
    assert quick == pytest.approx(2 * slow, rel=0.05)


def test_a_nics_rate_in_g_is_in_bits(ringtree: Ringtree) -> None:
    short, long = (ringtree(*FOUR, "--nics", nics, "--bytes", "8G").out for nics in ("8x200G", "8x200Gb/s"))
    assert short == long and "8 NICs of 25 GB/s (200 Gb/s)" in short


@pytest.mark.parametrize("fabric", ["infiniband", "roce", "efa", "slingshot", "tcp", "tcpx"])
def test_every_fabric_has_an_answer(ringtree: Ringtree, fabric: str) -> None:
    assert f"{fabric} over rails" in ringtree(*FOUR, "--fabric", fabric, "--bytes", "64M").out


def test_exported_files_read_back(ringtree: Ringtree, tmp_path: Path) -> None:
    graph, tuner = tmp_path / "graph.xml", tmp_path / "tuner.csv"
    ringtree(*FOUR, "--bytes", "8:8G:8", "--export-graph", str(graph), "--export-tuner", str(tuner))
    assert set(graph_xml.read(graph)) >= {Pattern.RING}
    lines = tuner_csv.read(tuner.read_text())
    assert {(row.nodes, row.ranks) for row in lines} == {(4, 32)}
    assert all(a.max_bytes < b.min_bytes for a, b in pairwise(lines))


CHOSEN = [
    ("dgx-h100 --nodes 2", "algorithm, protocol and channels: NCCL's choice"),
    ("dgx-h100 --nodes 2 --algorithm nvls_tree", "algorithm nvls_tree as given; protocol and channels: NCCL's choice"),
    ("dgx-h100 --protocol ll", "protocol ll as given; algorithm and channels: NCCL's choice"),
    (
        "dgx-h100 --algorithm ring --protocol simple",
        "algorithm ring and protocol simple as given; channels: NCCL's choice",
    ),
    ("mi300x8", "algorithm, protocol and channels: RCCL's choice"),
    ("ascend-910b-x8", "algorithm, protocol and channels: by NCCL's rules"),
]


@pytest.mark.parametrize(("words", "expected"), CHOSEN, ids=[words for words, _ in CHOSEN])
def test_the_header_says_who_chose(ringtree: Ringtree, words: str, expected: str) -> None:
    out = ringtree("plan", "all_reduce", "--bytes", "64M", "--topology", *words.split()).out
    assert f"# {expected}; time: ringtree's model of the hardware\n" in out
    replaced = "# NCCL does not run on ascend-910b-x8, HCCL does: NCCL's rules are used in its place\n"
    assert (replaced in out) is words.startswith("ascend")


def test_a_tuner_overrides_what_is_predicted_to_be_slower_alone(ringtree: Ringtree, tmp_path: Path) -> None:
    """The same sizes as the lines of the table have, and no others."""
    tuner = tmp_path / "tuner.csv"
    faster = r"(\w+)/(\w+) is predicted to be faster (?:at|from) (\S+ \S+)"
    for machine_name in ("dgx-h100", "dgx-a100", "dgx-b200"):
        for nbytes in (8, 1 << 16, 4 << 20, 1 << 30):
            words = ["--topology", machine_name, "--bytes", str(nbytes), "--export-tuner", str(tuner)]
            got = ringtree("plan", "all_reduce", *words)
            named = re.findall(faster, got.out)
            found = tuner_csv.read(tuner.read_text())
            assert [(row.algorithm, row.protocol) for row in found] == [name[:2] for name in named]
            assert all(nbytes / 1.5 < row.min_bytes <= nbytes <= row.max_bytes < nbytes * 1.5 for row in found)
            assert (f"# {tuner}: no rule, for no candidate is 5% faster" in got.out) is not bool(found)


def test_a_tuner_has_what_is_forced(ringtree: Ringtree, tmp_path: Path) -> None:
    tuner = tmp_path / "tuner.csv"
    ringtree(*FOUR, "--bytes", "4M", "--algorithm", "ring", "--export-tuner", str(tuner))
    (row,) = tuner_csv.read(tuner.read_text())
    assert (row.algorithm, row.min_bytes) == ("ring", 2965821)


@pytest.mark.parametrize(
    ("nic", "linked", "expected"),
    [
        ({}, True, "nic0 has no rate; expected one, as --nics 1x400Gb"),
        ({"rate_Bps": 5e10}, False, "gpu0 reaches no NIC; expected a path to one"),
    ],
)
def test_nodes_that_no_nic_joins_are_refused(
    ringtree: Ringtree, tmp_path: Path, nic: dict[str, float], linked: bool, expected: str
) -> None:
    devices = [{"name": "gpu0", "kind": "gpu"}, {"name": "nic0", "kind": "nic", **nic}]
    link = {"source": "gpu0", "target": "nic0", "kind": "pcie", "bandwidth_Bps": 5e10}
    links = [link, link | {"source": "nic0", "target": "gpu0"}] if linked else []
    file = tmp_path / "h.json"
    file.write_text(json.dumps({"machine": "h", "devices": devices, "links": links}))
    got = ringtree("plan", "all_reduce", "--topology", str(file), "--nodes", "2", "--fabric", "roce", "--bytes", "1M")
    assert got.code == 1 and expected in got.err and got.err.count("\n") == 1


MISTAKES = [
    (
        "all_to_all --topology dgx-h100 --export-tuner x.csv",
        "a tuner's row has collective 'all_to_all': expected one of",
    ),
    ("all_reduce --topology dgx-h101", "nearest are dgx-h100"),
    ("all_reduce --topology missing.xml", "missing.xml"),
    ("nothing --topology dgx-h100", "no collective 'nothing': expected one of all_reduce"),
    ("all_reduce --topology dgx-h100 --nodes 0", "--nodes 0: expected 1 to"),
    ("all_reduce --topology dgx-h100 --gpus 9", "--gpus 9: dgx-h100 has 8"),
    ("all_reduce --topology dgx-h100 --gpus 1", "is one GPU: expected two ranks at least"),
    ("all_reduce --topology dgx-h100 --gpus x", "expected a number of GPUs such as 4, or a list such as 0,1,4,5"),
    ("all_reduce --topology dgx-h100 --nics 8", "expected such as 8x400Gb"),
    ("all_reduce --topology dgx-h100 --nics 8x400", "--nics 8x400: '400' is no rate; expected such as 8x400Gb"),
    ("all_reduce --topology dgx-h100 --nics 8x4.0.0G", "--nics 8x4.0.0G: '4.0.0G' is no rate; expected such as"),
    ("all_reduce --topology dgx-h100 --nodes 2 --fabric string", "--fabric string: expected one of infiniband"),
    ("all_reduce --topology dgx-h100 --nodes 2 --network mesh", "--network mesh: expected one of rails"),
    ("all_reduce --topology dgx-h100 --nodes 2 --oversubscription 0.5", "oversubscription 0.5; expected at least 1"),
    ("all_reduce --topology dgx-h100 --bytes 8:", "--bytes 8:"),
    ("all_reduce --topology cpu-2s", "has no GPUs"),
    ("all_reduce --topology dgx-a100 --algorithm nvls", "NCCL has no nvls for all_reduce there"),
    ("all_reduce --topology dgx-a100 --algorithm rung", "no algorithm 'rung': expected one of"),
    ("all_reduce --topology dgx-a100 --protocol http", "no protocol 'http': expected one of ll,"),
    ("all_reduce --topology dgx-h100 --assume gpu", "expected such as gpu=h100-sxm"),
    (
        "all_reduce --topology dgx-h100 -b 8 --bytes 8",
        "--bytes and -b/--minbytes both name sizes: expected one of them",
    ),
    ("all_reduce --topology dgx-h100 --beside 1ms", "--beside describes a network between hosts"),
    ("all_reduce --topology dgx-h100 --json /nowhere/x.json", "no such folder to write to"),
]


@pytest.mark.parametrize(("words", "expected"), MISTAKES)
def test_a_mistake_is_one_line(ringtree: Ringtree, words: str, expected: str) -> None:
    got = ringtree("plan", *words.split())
    assert got.code != 0 and got.out == ""
    assert expected in got.err and got.err.count("\n") == 1
