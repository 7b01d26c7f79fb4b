"""`ringtree ps --hosts`: the groups of this user's on several hosts, as text and as JSON."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import Any

from ringtree.cli import ps
from ringtree.files.replacing import replace_with_json
from ringtree.runtime.launch.hosts.link import SSH
from ringtree.runtime.launch.hosts.placement import hosts_of, placed
from ringtree.runtime.observing.hosts import listings
from ringtree.runtime.observing.listing import Listing


def run(args: argparse.Namespace) -> int:
    """Prints each host's groups. Returns 1 where a host gave no answer, else 0."""
    hosts = placed(hosts_of(args.hosts), None)
    record: list[dict[str, Any]] = []
    failed = 0
    for host, found in listings(hosts, SSH if args.ssh is None else args.ssh, args.python):
        if record:
            print()
        print(f"host {host.name}", flush=True)
        if isinstance(found, Listing):
            show(found)
            record.append({"host": host.name, **dataclasses.asdict(found)})
        else:
            failed += 1
            print("  not known", flush=True)
            print(f"ringtree ps: host {host.name} {found}", file=sys.stderr, flush=True)
            record.append({"host": host.name, "error": found})
    if args.json:
        replace_with_json(args.json, {"hosts": record})
    return 1 if failed else 0


def show(found: Listing) -> None:
    """Prints a host's groups below its name."""
    for world in found.groups:
        for line in ps.lines(world, found.now_ns, absent=False):
            print(f"  {line}")
    if not found.groups:
        print("  no group of this user's runs there")
