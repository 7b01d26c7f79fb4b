"""The description of a machine, from a tree of files as Linux has them."""

from __future__ import annotations

from pathlib import Path

from ringtree.bench.machine import describe


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


def test_missing_facts_of_a_machine_are_not_guessed(tmp_path: Path) -> None:
    machine = describe(tmp_path)
    assert machine["caches"] == [] and machine["numa_nodes"] == 0 and machine["memory_bytes"] == 0
    assert machine["cores"] >= 1
