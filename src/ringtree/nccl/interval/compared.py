"""The systems that the model was compared with, and the scale of an interval that follows from them.

A system's factor is the one by which its intervals of named unknowns have to be widened, or may be narrowed, to hold 80
of 100 of its points. `python -m benchmarks.intervals --record` computes the factors from the published tables and
writes them here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import quantiles

from ringtree.nccl.interval.classes import PredictionClass

HELD = 0.8
"""The share of a system's points that its factor holds."""
NARROWEST = 0.75
"""The least scale of a class with several systems, whose points are alike; that of a class with one is at least 1."""


@dataclass(frozen=True, slots=True)
class ComparedSystem:
    """A published table: its class, its number of points, and the factor that holds its share of them."""

    system: str
    of: PredictionClass
    points: int
    factor: float


COMPARED = tuple(
    ComparedSystem(system, PredictionClass(*of), points, factor)
    for system, of, points, factor in (
        ("aws_p5_1n_allreduce", ("Hopper", "nvlink", "", "all_reduce"), 32, 0.58),
        ("b5_a100_2gpu_allreduce", ("Ampere", "nvlink", "", "all_reduce"), 3, 0.94),
        ("b5_a100_2gpu_sendrecv", ("Ampere", "nvlink", "", "send_recv"), 3, 1.57),
        ("b5_a100_4gpu_allreduce", ("Ampere", "nvlink", "", "all_reduce"), 3, 1.14),
        ("coreweave_gb200_nvl72_1rack_allreduce", ("Blackwell", "nvlink", "", "all_reduce"), 5, 1.37),
        ("cscs_gh200_2n_allreduce_ofi", ("Hopper", "nvlink", "slingshot", "all_reduce"), 25, 1.57),
        ("dstack_gcp_a3high_allgather", ("Hopper", "nvlink", "tcpx", "all_gather"), 11, 0.43),
        ("dstack_nebius_h100_2n_allreduce", ("Hopper", "nvlink", "infiniband", "all_reduce"), 31, 0.88),
        ("gcp_a3high_2n_allgather", ("Hopper", "nvlink", "tcpx", "all_gather"), 10, 0.58),
        ("gcp_a3mega_2n_allreduce", ("Hopper", "nvlink", "tcpxo", "all_reduce"), 31, 0.61),
        ("gcp_a3ultra_2n_allgather", ("Hopper", "nvlink", "roce", "all_gather"), 24, 1.44),
        ("issue252_ring_8rank", ("Hopper", "nvlink", "infiniband", "all_reduce"), 5, 0.75),
        ("issue309_h100_2n_dell_xe9680", ("Hopper", "nvlink", "infiniband", "all_reduce"), 32, 0.66),
        ("issue309_h100_4n_vm", ("Hopper", "nvlink", "infiniband", "all_reduce"), 32, 0.69),
        ("k8snccl_h100_2n_allreduce", ("Hopper", "nvlink", "infiniband", "all_reduce"), 5, 1.37),
        ("oci_a100_8gpu_1n_point", ("Ampere", "nvlink", "", "all_reduce"), 1, 0.03),
        ("rtx4090_2gpu_pcie_shm", ("Ampere", "host", "", "all_reduce"), 25, 1.65),
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scale:
    """The factor of the half widths of a class, and the systems that it is learnt from; `alike`: whether they are of
    that class."""

    of: PredictionClass
    factor: float
    systems: tuple[str, ...]
    alike: bool


def scale(of: PredictionClass, without: Collection[str] = ()) -> Scale:
    """The scale for a class, learnt from all compared systems but some: the factor that holds for 80 of 100 systems of
    the class; where the class was never compared, for 80 of 100 classes, and at least 1."""
    classes: dict[PredictionClass, list[ComparedSystem]] = {}
    for c in COMPARED:
        if c.system not in without:
            classes.setdefault(c.of, []).append(c)
    factors = {known: _most([c.factor for c in some]) for known, some in classes.items()}
    if of in factors:
        least = NARROWEST if len(classes[of]) > 1 else 1.0
        return Scale(of, max(factors[of], least), tuple(c.system for c in classes[of]), True)
    every = tuple(c.system for some in classes.values() for c in some)
    return Scale(of, max(_most([*factors.values()]), 1.0), every, False)


def _most(factors: Sequence[float]) -> float:
    """The factor that holds for 80 of 100, between two of them in proportion."""
    if len(factors) < 2:
        return factors[0] if factors else 1.0
    return quantiles(factors, n=100, method="inclusive")[round(100 * HELD) - 1]
