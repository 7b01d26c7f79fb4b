"""The description of a machine, from a tree of files as Linux has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ringtree.bench.machine import describe
from ringtree.runtime.launch.launch import run


def test_a_machine_is_read_from_its_files(tmp_path: Path) -> None:
    def write(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Example 9000\n")
    write("proc/meminfo", "MemTotal:       1024 kB\n")
    write("sys/devices/system/node/node0/cpulist", "0-3\n")
    write("sys/devices/system/node/node1/cpulist", "4-7\n")
    for index, (level, kind, size, sharers) in enumerate(
        [("1", "Data", "48K", "0"), ("1", "Instruction", "32K", "0"), ("3", "Unified", "32768K", "0-2,7")]
    ):
        folder = f"sys/devices/system/cpu/cpu0/cache/index{index}"
        for name, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", sharers)):
            write(f"{folder}/{name}", text + "\n")
    machine = describe(tmp_path)
    assert machine["cpu"] == "Example 9000"
    assert machine["caches"] == ["L1 48 KiB", "L3 32 MiB / 4 cores"]
    assert (machine["numa_nodes"], machine["memory_bytes"]) == (2, 1024 * 1024)


def test_a_bound_rank_describes_the_cores_of_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cores = len(os.sched_getaffinity(0))
    (file := tmp_path / "program.py").write_text(
        "import os\nfrom ringtree.bench.machine import describe\n"
        "print(len(os.sched_getaffinity(0)), describe()['cores'])\n"
    )
    assert run([str(file)], cores) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(f"[{rank}] 1 {cores}" for rank in range(cores))


def test_missing_facts_of_a_machine_are_not_guessed(tmp_path: Path) -> None:
    machine = describe(tmp_path)
    assert machine["caches"] == [] and machine["numa_nodes"] == 0 and machine["memory_bytes"] == 0
    assert machine["cores"] >= 1
