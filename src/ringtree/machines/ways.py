"""The ways that NCCL's data takes inside a machine, from GPU to GPU and between a GPU and a NIC, as tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ringtree.machines.contraction import Contracted
from ringtree.machines.machine import PathKind
from ringtree.machines.paths import NOWHERE, Path, Paths, gdr, p2p
from ringtree.topology.cluster_topology import Ways
from ringtree.topology.fabrics import Fabric
from ringtree.topology.networks import NO_WIRES, Wires

Ints = NDArray[np.int64]


def ways(one: Contracted, fabric: Fabric | None, wires: Wires | None, shared: tuple[int, ...]) -> Ways:
    """Of each pair of ranks, and of each rank and port: the NICs, or the first switch that all machines share; none
    where there are no others (`wires` None). What may not go directly, P2P or GPUDirect RDMA, goes by the CPU."""
    paths, ranks = one.paths, range(one.seats)
    inside = [[_inside(paths, a, b) for b in ranks] for a in ranks]
    home: tuple[int, ...] = (0,) * one.seats
    out = into = [[NOWHERE] * one.seats] * one.seats
    leaves_by = [[0] * one.seats] * one.seats
    if shared:
        out = [[paths.between(a, shared[0])] for a in ranks]
        into = [[paths.between(shared[0], b) for b in ranks]]
    elif wires:
        home, ports = one.home, range(len(one.machine.nics))
        out = [[_out(paths, one, a, nic, fabric) for nic in ports] for a in ranks]
        into = [[_into(paths, one, nic, b, fabric) for b in ranks] for nic in ports]
        leaves_by = [[_leaves_by(out[a], home[a], home[b]) for b in ranks] for a in ranks]
    return Ways(
        one.seats,
        len(one.machine.links),
        _table(inside),
        _there(inside),
        np.array(home),
        np.array(leaves_by),
        _table(out),
        _there(out),
        _table(into),
        _there(into),
        wires or NO_WIRES,
    )


def _leaves_by(out: list[Path], own: int, other: int) -> int:
    """The NIC by which a rank sends to one that receives by the same NIC of another machine as `other` is of this:
    that, where it is as near as the rank's own, or another GPU hands on to it."""
    if own < 0 or other < 0:
        return own
    as_near = out[other].kind is PathKind.PXN or (
        out[other].kind <= out[own].kind and out[other].bandwidth_Bps >= out[own].bandwidth_Bps
    )
    return other if as_near else own


def _inside(paths: Paths, a: int, b: int) -> Path:
    direct = paths.between(a, b)
    if not PathKind.NVB < direct.kind < PathKind.DIS or not paths.machine.gpus or p2p(paths, a, b).applies:
        return direct
    bounced = paths.through_cpu(a, b)
    return direct if bounced.kind is PathKind.DIS else bounced


def _out(paths: Paths, one: Contracted, rank: int, nic: int, fabric: Fabric | None) -> Path:
    port = one.machine.nics[nic]
    direct = paths.between(rank, port)
    if not one.machine.gpus:
        return direct
    relayed = paths.to_nic(rank, nic, fabric)
    if relayed.kind is PathKind.PXN or gdr(paths, rank, nic, fabric).applies:
        return relayed
    bounced = paths.through_cpu(rank, port)
    return direct if bounced.kind is PathKind.DIS else bounced


def _into(paths: Paths, one: Contracted, nic: int, rank: int, fabric: Fabric | None) -> Path:
    port = one.machine.nics[nic]
    direct = paths.between(port, rank)
    if not one.machine.gpus or gdr(paths, rank, nic, fabric, sends=False).applies:
        return direct
    bounced = paths.through_cpu(port, rank)
    return direct if bounced.kind is PathKind.DIS else bounced


def _there(paths: list[list[Path]]) -> NDArray[np.bool_]:
    return np.array([[p.kind is not PathKind.DIS for p in row] for row in paths], np.bool_).reshape(len(paths), -1)


def _table(paths: list[list[Path]]) -> Ints:
    """Each path's links along the last axis, filled up with -1."""
    longest = max((len(p.links) for row in paths for p in row), default=0)
    rows = [[[*p.links, *[-1] * (longest - len(p.links))] for p in row] for row in paths]
    return np.array(rows, np.int64).reshape(len(paths), len(paths[0]) if paths else 0, longest)
