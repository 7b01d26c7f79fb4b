"""`ringtree plan` on this machine: a Communicator does what it prints, by the cost parameters that it names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import ringtree as rt
from ringtree.bench import tuned_text
from ringtree.bench.predicted import shared_memory
from ringtree.cli.plan import here
from ringtree.ir.collective import COLLECTIVES
from ringtree.plan import choose
from ringtree.price import BUILT_IN, SharedMemory
from ringtree.runtime import tuned
from ringtree.runtime.engines import shm
from tests.cli.conftest import Ringtree
from tests.machines.sysfs_trees import SysTree

FIELDS = {"nbytes", "algorithm", "protocol", "channels", "time_us", "algbw_GBps", "busbw_GBps", "bound_fraction"}


@pytest.fixture(autouse=True)
def untuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(tuned.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def picks(comm: rt.Communicator, collective: str, sizes: list[int]) -> list[str]:
    return [comm.chosen(collective, nbytes // 4).part.program.name for nbytes in sizes]


def test_one_size_is_explained(ringtree: Ringtree) -> None:
    got = ringtree("plan", "all_reduce", "-n", "4", "--bytes", "1M")
    assert got.code == 0 and not got.err
    for words in (
        "# all_reduce over 4 ranks on ",
        "# by built-in cost parameters",
        "; `ringtree tune` measures this machine",
        "synchronizing (us)",
        "copying (us)",
        "reading (us)",
        "reducing (us)",
        "<- chosen",
        " is chosen: ",
        "staged through ",
        "8 buffers of 128 KiB per rank",
        "# lower bound ",
        "or reading 6 MiB in all from peers; bottleneck: ",
    ):
        assert words in got.out, words
    times = [float(line.split()[2]) for line in got.out.splitlines() if not line.startswith("#")]
    assert times == sorted(times) and len(times) > 3


def test_first_and_last_size_and_factor_are_as_in_bench(ringtree: Ringtree) -> None:
    def sizes(*words: str) -> list[int]:
        out = ringtree("plan", "all_reduce", "-n", "2", *words).out
        return [int(line.split()[0]) for line in out.splitlines() if not line.startswith("#")]

    assert set(sizes("-b", "1M", "-e", "1M")) == {1 << 20}
    assert sizes("-b", "8", "-e", "8K", "-f", "8") == sizes("--bytes", "8:8K:8") == [8, 64, 512, 4096]
    assert sizes("-b", "4G") == sizes("--bytes", "4G:8G") and sizes("-e", "16") == [8, 16]


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "broadcast"])
def test_the_plan_names_what_a_call_runs(collective: str, ringtree: Ringtree, tmp_path: Path) -> None:
    sizes = [64, 4096, 65536, 1 << 20]
    file = tmp_path / "rows.json"
    assert ringtree("plan", collective, "-n", "3", "--bytes", ",".join(map(str, sizes)), "--json", str(file)).code == 0
    record = json.loads(file.read_text())
    assert record["figures"].startswith("built-in cost parameters") and record["ranks"] == 3
    assert all(set(row) >= FIELDS for row in record["rows"])
    assert [row["algorithm"] for row in record["rows"]] == rt.spawn(picks, 3, collective, sizes)[0]


def of_rank(comm: rt.Communicator, collective: str, sizes: list[int]) -> tuple[object, list[str]]:
    where = comm.where
    assert isinstance(where, SharedMemory)
    steps = (comm.chosen(collective, nbytes // 4).part.program for nbytes in sizes)
    return (where.node_of, where.speed, where.slot_bytes), [program.name for program in steps]


def two_nodes(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """A made-up machine, whose usable cores are on two nodes."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        pytest.skip("this process may use one core alone")
    monkeypatch.setattr(shm, "THIS", str(root))
    SysTree(root).two_nodes(usable)


def test_ranks_on_several_nodes_are_planned_as_calls_are(
    ringtree: Ringtree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [64, 65536, 1 << 20]
    asked = "plan", "all_reduce", "-n", "2", "--bytes", ",".join(map(str, sizes)), "--json", str(tmp_path / "rows.json")
    alone = ringtree(*asked).out
    two_nodes(monkeypatch, tmp_path)
    got = ringtree(*asked)
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    known, names = rt.spawn(of_rank, 2, "all_reduce", sizes, pin=True)[0]
    memory = shared_memory(2)
    assert known == (memory.node_of, memory.speed, memory.slot_bytes) and memory.node_of == (0, 1)
    assert [row["algorithm"] for row in rows] == names
    assert ", on 2 NUMA nodes, predicted" in got.out and "NUMA" not in alone
    for before, after in zip(alone.splitlines()[4:7], got.out.splitlines()[4:7], strict=True):
        assert float(before.split()[2]) < float(after.split()[2])
    assert "NUMA" not in ringtree("plan", "all_reduce", "-n", "64", "--bytes", "8").out, "ranks that share cores"


def test_a_nesting_in_numa_nodes_is_named(ringtree: Ringtree, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    eight = replace(shared_memory(8), cores=8, node_of=(0,) * 4 + (1,) * 4)
    monkeypatch.setattr(here, "shared_memory", lambda ranks, parameters=None: eight)
    choice = choose("all_gather", 8, 1 << 16, memory=eight)
    assert choice.options
    file = tmp_path / "rows.json"
    got = ringtree("plan", "all_gather", "-n", "8", "--bytes", "64K", "--json", str(file))
    label = " in NUMA nodes and "
    [chosen] = (line for line in got.out.splitlines() if line.endswith("<- chosen"))
    assert label in chosen and label in next(line for line in got.out.splitlines() if " is chosen: " in line)
    [row] = json.loads(file.read_text())["rows"]
    assert row["algorithm"] == choice.algorithm and label in row["label"]
    assert len({c["label"] for c in row["candidates"]}) == len(row["candidates"])


def test_figures_may_be_those_of_another_machine(ringtree: Ringtree, tmp_path: Path) -> None:
    data = json.loads(tuned_text.text(replace(BUILT_IN, latency_s=1e-3), (2,), "2020-02-02"))
    data["tuned"]["machine"] = {"cpu": "Another", "cores": 48}
    (tmp_path / "there.json").write_text(json.dumps(data, indent=1))
    got = ringtree("plan", "all_reduce", "-n", "16", "--bytes", "8:1M", "--topology", str(tmp_path / "there.json"))
    assert got.code == 0, got.err
    assert "16 ranks on 48 cores of Another" in got.out and "measured on 2020-02-02" in got.out
    assert "# one_shot from 8 B to " in got.out


def test_this_machines_file_is_named(ringtree: Ringtree, tmp_path: Path) -> None:
    path = Path(tuned.location())
    path.parent.mkdir()
    path.write_text(tuned_text.text(BUILT_IN, (2,), "2026-11-21"))
    assert f"# by parameters measured on 2026-11-21 ({path})" in ringtree("plan", "reduce", "--bytes", "8").out


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_everything_can_be_planned(collective: str, ringtree: Ringtree) -> None:
    sizes = () if collective == "barrier" else ("--bytes", "8:64M:64")
    got = ringtree("plan", collective, "-n", "5", *sizes, "--all")
    assert got.code == 0, got.err
    assert all("%" in line for line in got.out.splitlines() if not line.startswith("#"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("nonsense",), "no collective 'nonsense'"),
        (("all_reduce", "-n", "0"), "-n/--ranks 0: expected 1 to 256 ranks"),
        (("all_reduce", "--bytes", "lots"), "expected such as 1M"),
        (("all_reduce", "--nics", "8x400Gb"), "--nics applies to a cluster: expected --topology"),
        (("all_reduce", "--nodes", "4"), "--nodes applies to a cluster: expected --topology"),
        (("all_reduce", "--nodes", "0"), "--nodes applies to a cluster: expected --topology"),
        (("all_reduce", "--sharp"), "--sharp applies to a cluster: expected --topology"),
        (("all_reduce", "--model", "nccl"), "--model applies to a cluster: expected --topology"),
        (("all_reduce", "--beside", "1ms"), "--beside describes a network between hosts: expected --hosts"),
        (("all_reduce", "--bytes", "8", "-e", "1M"), "--bytes and -e/--maxbytes both name sizes: expected one of them"),
        (("barrier", "--bytes", "1M"), "--bytes: a barrier moves no data; leave it out"),
        (("all_reduce", "-f", "0"), "-f 0: expected a factor over 1"),
        (
            ("all_reduce", "--topology", "dgx-h100", "-n", "4"),
            "-n/--ranks counts ranks on this machine, got 4; for a cluster use --nodes 2",
        ),
    ],
)
def test_a_mistake_is_one_line(words: tuple[str, ...], why: str, ringtree: Ringtree) -> None:
    got = ringtree("plan", *words)
    assert got.code != 0 and why in got.err and got.err.count("\n") == 1


@pytest.mark.parametrize("where", [("-n", "4"), ("--hosts", "2,2"), ("--topology", "dgx-h100")])
def test_sizes_may_be_in_any_order(where: tuple[str, ...], ringtree: Ringtree) -> None:
    ordered = ringtree("plan", "all_reduce", *where, "--bytes", "8,64K,1M")
    assert ordered.code == 0 and ringtree("plan", "all_reduce", *where, "--bytes", "1M,8,64K,8") == ordered


@pytest.mark.parametrize("where", [("-n", "4"), ("--hosts", "2,2")])
def test_a_barrier_has_one_line(where: tuple[str, ...], ringtree: Ringtree) -> None:
    got = ringtree("plan", "barrier", *where)
    lines = [line for line in got.out.splitlines() if line and not line.startswith("#")]
    assert got.code == 0 and {line.split()[0] for line in lines} == {"0"}


def test_planning_needs_no_native_module(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['ringtree._native'] = None\n"
        "from ringtree.cli import main; sys.exit(main(['plan', 'all_reduce', '--bytes', '1M']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
