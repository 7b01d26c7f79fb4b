"""Machines of the catalogue with fewer GPUs, other NICs and other fabrics, as `ringtree plan` combines them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ringtree.machines import catalogue
from ringtree.machines.machine import Machine
from ringtree.machines.nics import with_nics
from ringtree.topology.fabrics import FABRICS

GIGABIT_Bps = 1e9 / 8
OWN = (0, 0.0)
NICS = (OWN, (1, 200.0), (2, 100.0), (3, 400.0), (8, 400.0))
"""How many, of how many Gb/s."""
GB200_RACKS = ("gb200-nvl72", "aws-p6e-gb200", "gcp-a4x", "azure-ndv6-gb200", "oci-gb200")
LARGE = {"dgx-h100-superpod": (1, 8), **dict.fromkeys(GB200_RACKS, (1, 4, 8))}
"""GPUs of the machines whose search takes minutes with all."""


class Combination(NamedTuple):
    """`--gpus`, `--nics`, `--fabric` and `--nodes` of a command line; fabric "": the NICs' own."""

    gpus: int
    nics: tuple[int, float]
    fabric: str
    nodes: int


def numbers_of_gpus(name: str) -> tuple[int, ...]:
    there = len(catalogue.machine(name).gpus)
    return LARGE.get(name, tuple(sorted({1, 2, 3, there // 2, there})))


def combinations(name: str) -> Iterator[Combination]:
    for gpus in numbers_of_gpus(name):
        if gpus > 1:
            yield Combination(gpus, OWN, "", 1)
        for nics in NICS:
            yield from (Combination(gpus, nics, "", nodes) for nodes in (2, 4))
        for fabric in FABRICS:
            yield from (Combination(gpus, nics, fabric, 2) for nics in (OWN, NICS[-1]))


def machine(name: str, of: Combination) -> Machine:
    part = catalogue.machine(name).part(range(of.gpus))
    return part if of.nics == OWN else with_nics(part, of.nics[0], of.nics[1] * GIGABIT_Bps)
