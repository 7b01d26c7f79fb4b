"""This machine in words: `ringtree info`."""

from __future__ import annotations

import argparse
import json

from ringtree.bench.machine import describe


def run(args: argparse.Namespace) -> int:
    """Prints a description of this machine. Returns the exit code."""
    machine = describe()
    if args.json:
        print(json.dumps(machine, indent=2))
        return 0
    cores, nodes = machine["cores"], machine["numa_nodes"]
    lines = {
        "cpu": machine["cpu"],
        "cores": f"{cores} usable" + (f", {nodes} NUMA node{'s' * (nodes > 1)}" if nodes else ""),
        "caches": ", ".join(machine["caches"]) or "unknown",
        "memory": f"{machine['memory_bytes'] / 2**30:.1f} GiB",
        "kernel": machine["kernel"],
        "python": f"{machine['python']}, numpy {machine['numpy']}",
        "ringtree": machine["ringtree"] or "not installed",
    }
    for name, text in lines.items():
        print(f"{name:<9}{text}")
    return 0
