"""This machine in words: `ringtree info`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ringtree.bench.machine import describe
from ringtree.machines.detect.cpus import NODES, numa_nodes
from ringtree.machines.sysfs import Sysfs


def run(args: argparse.Namespace) -> int:
    """Prints a description of this machine. Returns the exit code."""
    machine = describe()
    if args.json:
        print(json.dumps(machine, indent=2))
        return 0
    cores, count = machine["cores"], machine["numa_nodes"]
    lines = {
        "cpu": machine["cpu"],
        "cores": f"{cores} usable" + (f", {count} NUMA node{'s' * (count > 1)}" if count else ""),
        "caches": ", ".join(machine["caches"]) or "unknown",
        "memory": f"{machine['memory_bytes'] / 2**30:.1f} GiB",
        "kernel": machine["kernel"],
        "python": f"{machine['python']}, numpy {machine['numpy']}",
        "ringtree": machine["ringtree"] or "not installed",
    }
    if nodes := numa(Sysfs(Path("/"))):
        lines["numa"] = nodes
    for name, text in lines.items():
        print(f"{name:<9}{text}")
    return 0


def numa(sysfs: Sysfs) -> str:
    """The NUMA nodes with their cores, as the kernel lists them; "" where there is one."""
    found = numa_nodes(sysfs)
    listed = (f"node {node.number}: cores {sysfs.line(f'{NODES}/node{node.number}/cpulist')}" for node in found)
    return "; ".join(listed) if len(found) > 1 else ""
