"""The place that a simulation is played in: a topology, or ranks on several hosts, with memory inside and a network
between."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace

from ringtree.bench.machine import usable_cores
from ringtree.cli.arguments.hosts import host_of_ranks, latency, link_rate
from ringtree.cli.arguments.topology import topology
from ringtree.cli.options.simulate import ASSUMED
from ringtree.price import BUILT_IN, Hosts, SharedMemory, over_hosts
from ringtree.price.hosts import BANDWIDTH_BPS, LATENCY_S, WIRE_MESSAGE_S
from ringtree.runtime.engines.shm import staging
from ringtree.runtime.tuned import parameters_here
from ringtree.topology import Topology

Place = Callable[[int], Topology]
"""The topology for a whole vector of so many bytes: of memory, the cost of a byte depends on the size."""
OF_HOSTS = ("rate", "latency", "share_cores")


def ranks_on_hosts(args: argparse.Namespace) -> None:
    """Sets the number of ranks by --hosts, where it is given. ValueError: where both are and differ, or where an option
    of hosts stands alone or beside a topology."""
    if args.hosts is None:
        if alone := [name for name in OF_HOSTS if getattr(args, name)]:
            raise ValueError(
                f"--{alone[0].replace('_', '-')} applies to --hosts: expected such as --hosts 2,2,2 as well"
            )
        return
    if args.topology is not None:
        raise ValueError("--hosts and --topology are two places: expected one of them")
    ranks = len(host_of_ranks(args.hosts))
    if args.ranks not in (None, ranks):
        raise ValueError(f"--hosts {args.hosts} has {ranks} ranks, and -n/--ranks {args.ranks}: expected the same")
    args.ranks = ranks


def place(args: argparse.Namespace, ranks: int) -> Place:
    """The place of the options for a schedule of `ranks` ranks."""
    if args.hosts is None:
        fixed = topology(args.topology or ASSUMED, ranks)
        return lambda nbytes: fixed
    hosts = hosts_here(args)
    if len(hosts.host_of) != ranks:
        raise ValueError(f"--hosts {args.hosts} has {len(hosts.host_of)} ranks, the schedule {ranks}")
    busy = max(hosts.turns, max(map(hosts.host_of.count, set(hosts.host_of))) / hosts.memory.cores)

    def at(nbytes: int) -> Topology:
        return replace(over_hosts.topology(hosts, nbytes), away_message_s=WIRE_MESSAGE_S * busy)

    return at


def hosts_here(args: argparse.Namespace) -> Hosts:
    """The hosts of --hosts, --rate, --latency and --share-cores: each with this machine's memory and cores."""
    host_of = host_of_ranks(args.hosts)
    latency_s = latency(args.latency) if args.latency else LATENCY_S
    bandwidth_Bps = link_rate(args.rate) if args.rate else BANDWIDTH_BPS
    cores = usable_cores()
    memory = SharedMemory(cores, *staging(len(host_of), latency_s=latency_s), parameters_here() or BUILT_IN)
    turns = max(len(host_of) / cores, 1.0) if args.share_cores else 1.0
    return Hosts(host_of, memory, latency_s, bandwidth_Bps, turns)
