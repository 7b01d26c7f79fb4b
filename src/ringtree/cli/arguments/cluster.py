"""The arguments that name a cluster: a machine, the number of nodes, and the network between them."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from ringtree.cli.arguments.subject import given
from ringtree.machines.clusters import Cluster, NetworkShape
from ringtree.machines.contraction import shared_switch
from ringtree.machines.files.nccl_xml import assumptions, unused
from ringtree.machines.files.reading import find
from ringtree.machines.machine import Machine
from ringtree.machines.nics import usual_fabric, with_nics
from ringtree.nccl.link_speeds import runs_rccl
from ringtree.nccl.releases import release
from ringtree.topology import Topology
from ringtree.topology.fabrics import FABRICS
from ringtree.topology.text import SHAPES, bytes_per_second

MOST_NODES = 1 << 20
_BETWEEN_NODES = ("network", "oversubscription", "sharp")


def cluster(args: argparse.Namespace) -> Cluster:
    """The cluster that the arguments name; ValueError, in one line, for what cannot be."""
    if not 1 <= args.nodes <= MOST_NODES:
        raise ValueError(f"--nodes {args.nodes}: expected 1 to {MOST_NODES}")
    if args.nodes == 1 and (options := given(args, _BETWEEN_NODES)):
        raise ValueError(f"{options[0]}: one node has no network to others; expected --nodes from 2")
    machine = machine_of(args)
    if args.nodes > 1 and not machine.nics:
        raise ValueError(f"{machine.name} has no NICs to connect {args.nodes} nodes: expected --nics, such as 8x400Gb")
    name = args.fabric or usual_fabric(machine)
    networks = {n.value: n for n in NetworkShape}
    for option, text, known in (("--fabric", name, FABRICS), ("--network", args.network, networks)):
        if text is not None and text not in known:
            raise ValueError(f"{option} {text}: expected one of {', '.join(known)}")
    network = networks[args.network or NetworkShape.RAILS.value]
    return Cluster(
        machine,
        args.nodes,
        FABRICS[name] if name else None,
        network,
        args.oversubscription,
        args.sharp,
        _release(machine, getattr(args, "nccl", None)),
    )


def _release(machine: Machine, text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    if runs_rccl(machine):
        raise ValueError(f"--nccl {text}: {machine.name} runs RCCL; leave it out")
    try:
        return release(text)
    except ValueError as error:
        raise ValueError(f"--nccl: {error}") from None


def machine_of(args: argparse.Namespace) -> Machine:
    """The machine that the arguments name, of which a cluster's nodes are."""
    machine = find(args.topology, assumptions(args.assume or ""))
    for note in unused(machine):
        raise ValueError(f"--assume {note.about}: {note.text}; leave it out")
    if args.gpus:
        machine = machine.part(_gpus(machine, args.gpus))
    return _with_nics(machine, args.nics) if args.nics else machine


def rate_Bps(text: str) -> float:
    """`400Gb`, `400Gb/s`, `400G`, as everybody writes it, or `50GB/s` as bytes a second. ValueError for others."""
    in_bits = f"{text}b" if re.fullmatch(r"[0-9.]+[GT]", text) else text
    try:
        return bytes_per_second(in_bits if in_bits.endswith(("/s", "ps")) else f"{in_bits}/s")
    except ValueError:
        raise ValueError(f"{text!r} is no rate") from None


def _gpus(machine: Machine, text: str) -> range | list[int]:
    if not re.fullmatch(r"\d{1,6}(,\d{1,6})*,?", text, re.ASCII):
        raise ValueError(f"--gpus {text}: expected a number of GPUs such as 4, or a list such as 0,1,4,5")
    there = len(machine.gpus)
    if "," in text:
        listed = [int(g) for g in text.removesuffix(",").split(",")]
        if len({*listed}) < len(listed):
            raise ValueError(f"--gpus {text}: expected GPUs that differ, such as 0,1,4,5")
        return listed
    if not 1 <= int(text) <= there:
        raise ValueError(f"--gpus {text}: {machine.name} has {there}")
    return range(int(text))


def _with_nics(machine: Machine, text: str) -> Machine:
    count, times, rate = text.partition("x")
    try:
        if not times or not (count.isascii() and count.isdecimal()):
            raise ValueError("no count and rate")
        return with_nics(machine, int(count[:9]), rate_Bps(rate))
    except ValueError as error:
        raise ValueError(f"--nics {text}: {error}; expected such as 8x400Gb") from None


def cluster_of_ranks(args: argparse.Namespace, ranks: int) -> Cluster:
    """The cluster of as many of the machine that the arguments name as have a GPU for each rank; ValueError, in one
    line, where ranks do not fill the last one. Fewer ranks than a machine has GPUs have its first ones."""
    alone = argparse.Namespace(**vars(args) | {"nodes": 1, "gpus": None})
    machine = machine_of(alone)
    each, of_each = Cluster(machine).ranks, "GPUs" if machine.gpus else "CPUs"
    if ranks > each and ranks % each:
        raise ValueError(
            f"--topology {args.topology}: {ranks} ranks on machines of {each} {of_each}; expected a multiple"
        )
    nodes = max(ranks // each, 1)
    if nodes == 1 and (options := given(args, _BETWEEN_NODES)):
        where = f"{ranks} ranks are on one {machine.name}, which has no network"
        raise ValueError(f"{options[0]}: {where}; expected more ranks")
    return cluster(argparse.Namespace(**vars(alone) | {"nodes": nodes}))


def of_machines(text: str, ranks: int) -> Topology:
    """The cluster of as many of a machine as make up the ranks, on the fabric its NICs are for."""
    try:
        machine = find(text)
    except ValueError as refusal:
        if Path(text).exists():
            raise
        raise ValueError(f"topology {text!r}: no shape of that name ({', '.join(SHAPES)}), and {refusal}") from None
    each = Cluster(machine).ranks
    if ranks % each and ranks > each:
        raise ValueError(f"topology {text}: {ranks} ranks on machines of {each}; expected a multiple")
    if ranks < each:
        return Cluster(first_ranks(machine, ranks)).topology()
    if ranks > each and not machine.nics and shared_switch(machine) is None:
        raise ValueError(
            f"topology {text}: {machine.name} has no NICs to connect {ranks // each} of it, for {ranks} ranks; "
            f"expected at most {each} rank{'s' * (each > 1)}, or --nics, such as 8x400Gb"
        )
    fabric = usual_fabric(machine)
    return Cluster(machine, ranks // each, FABRICS[fabric] if fabric else None).topology()


def first_ranks(machine: Machine, ranks: int) -> Machine:
    """The machine with its first GPUs alone. ValueError where its ranks are CPUs."""
    if not machine.gpus:
        cpus = Cluster(machine).ranks
        raise ValueError(
            f"{machine.name}: {ranks} of {cpus} CPUs; expected a multiple of {cpus} ranks, one for each CPU"
        )
    return machine.part(range(ranks))
