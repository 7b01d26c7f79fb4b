"""The machines and networks that are known by name: `ringtree topo list`."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ringtree.cli import terminal
from ringtree.draw import machine_words
from ringtree.draw.text.lines import TextSpan
from ringtree.machines.catalogue import NAMES, machine
from ringtree.machines.machine import Machine
from ringtree.topology.fabrics import FABRICS


def run(args: argparse.Namespace) -> int:
    """Prints the machines and networks of the catalogue. Returns the exit code."""
    machines = [_facts(machine(name)) for name in NAMES]
    fabrics: list[dict[str, Any]] = [
        {
            "name": f.name,
            "rdma": f.rdma,
            "gpu_memory": f.gdr,
            "payload": f.payload,
            "latency_us": f.latency_s * 1e6,
            "message_us": f.message_s * 1e6,
        }
        for f in FABRICS.values()
    ]
    if args.json:
        print(json.dumps({"machines": machines, "fabrics": fabrics}, indent=2))
        return 0
    _table(("machine", "GPUs", "joined by", "NICs"), [_row(m) for m in machines])
    print()
    _table(
        ("network", "RDMA", "to GPU memory", "of the line rate", "latency", "a message costs its sender"),
        [
            (
                str(f["name"]),
                "yes" if f["rdma"] else "no",
                "yes" if f["gpu_memory"] else "no",
                f"{100 * f['payload']:.1f} %",
                f"{f['latency_us']:g} µs",
                f"{f['message_us']:g} µs",
            )
            for f in fabrics
        ],
    )
    return 0


def _facts(machine: Machine) -> dict[str, Any]:
    devices = machine.devices
    gpus, nics = ([devices[n] for n in numbers] for numbers in (machine.gpus, machine.nics))
    return {
        "name": machine.name,
        "gpus": len(gpus),
        "gpu": ", ".join(dict.fromkeys(g.model for g in gpus)),
        "joined": str(machine_words.joined(machine) or "none"),
        "nics": len(nics),
        "nic_Gbps": [nic.rate_Bps * 8e-9 for nic in nics],
    }


def _row(m: dict[str, Any]) -> tuple[str, ...]:
    rates = sorted(set(m["nic_Gbps"]), reverse=True)
    nics = ", ".join(f"{m['nic_Gbps'].count(rate)} × {rate:g} Gb/s" for rate in rates)
    gpus = f"{m['gpus']} × {m['gpu']}" if m["gpus"] else "none"
    return m["name"], gpus, m["joined"], nics or "none"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Columns as wide as need be; the head in bold where a person looks on."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)) for row in [head, *rows]]
    terminal.show([(TextSpan(line, "head" if n == 0 else ""),) for n, line in enumerate(lines)])
