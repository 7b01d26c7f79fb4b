"""The place that a simulation is played in: a topology, or ranks on several hosts, with memory inside and a network
between."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

from ringtree.bench.machine import usable_cores
from ringtree.cli.arguments.hosts import host_of_ranks, latency, link_rate
from ringtree.cli.arguments.subject import given
from ringtree.cli.arguments.topology import CLUSTER, machine_of, topology
from ringtree.cli.options.cluster import OPTIONS
from ringtree.cli.options.schedules.simulate import ASSUMED
from ringtree.machines.clusters import Cluster
from ringtree.price import BUILT_IN, Hosts, SharedMemory, over_hosts
from ringtree.price.hosts import BANDWIDTH_BPS, LATENCY_S, WIRE_MESSAGE_S
from ringtree.runtime.engines.shm import staging
from ringtree.runtime.tuned import parameters_here
from ringtree.topology import Topology

Place = Callable[[int], Topology]
"""The topology for a whole vector of so many bytes: of memory, the cost of a byte depends on the size."""
OF_HOSTS = ("rate", "latency", "share_cores")


def ranks_in_place(args: argparse.Namespace) -> None:
    """Sets the number of ranks by --hosts, or by --nodes and --gpus, where they are given. ValueError: where -n is
    another, or where options of hosts or of machines stand without them, or beside those of the other place."""
    if args.hosts is None and (alone := [name for name in OF_HOSTS if getattr(args, name)]):
        raise ValueError(f"--{alone[0].replace('_', '-')} applies to --hosts: expected such as --hosts 2,2,2 as well")
    if args.hosts is not None and args.topology is not None:
        raise ValueError("--hosts and --topology are two places: expected one of them")
    if args.hosts is not None and (options := _of_machines(args)):
        raise ValueError(f"{options[0]} applies to machines, not to --hosts; leave it out")
    if args.hosts is not None:
        ranks, option = len(host_of_ranks(args.hosts)), f"--hosts {args.hosts}"
    elif _of_machines(args) and _is_counted(args):
        cluster = _cluster(args)
        ranks, option = cluster.ranks, cluster.name
    else:
        return
    if args.ranks not in (None, ranks):
        raise ValueError(f"{option} has {ranks} ranks, and -n/--ranks {args.ranks}: expected the same")
    args.ranks = ranks


def _of_machines(args: argparse.Namespace) -> list[str]:
    """The options of machines that are given; ValueError beside a topology that is none."""
    options = ["--nodes"] * (args.nodes == 1) + given(args, OPTIONS)
    text = args.topology or ASSUMED
    if options and args.hosts is None and machine_of(text) is None:
        raise ValueError(f"{options[0]} applies to machines, not to {text}; leave it out")
    if args.sharp:
        raise ValueError("--sharp: no schedule reduces in the network's switches; leave it out")
    return options


def _is_counted(args: argparse.Namespace) -> bool:
    """Whether the options count the machines or their GPUs; where neither, the ranks do."""
    return args.nodes is not None or args.gpus is not None


def _cluster(args: argparse.Namespace, ranks: int = 0) -> Cluster:
    """The cluster that the options name, of as many machines as the ranks need unless the options count them."""
    clusters = import_module(CLUSTER)
    if _is_counted(args):
        made: Cluster = clusters.cluster(
            argparse.Namespace(**vars(args) | {"nodes": 1 if args.nodes is None else args.nodes})
        )
    else:
        made = clusters.cluster_of_ranks(args, ranks)
    return made


def place(args: argparse.Namespace, ranks: int) -> Place:
    """The place of the options for a schedule of `ranks` ranks."""
    if args.hosts is None:
        fixed = _cluster(args, ranks).topology() if _of_machines(args) else topology(args.topology or ASSUMED, ranks)
        if _is_counted(args) and fixed.ranks != ranks:
            raise ValueError(f"{fixed.name} has {fixed.ranks} ranks, the schedule {ranks}: expected as many")
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
