"""Remarks on a log beside the verdict on its speed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.units import enumeration, size
from ringtree.machines.channels import Pattern
from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import NoteKind
from ringtree.nccl.cluster_plan import ClusterPlan
from ringtree.nccl.faster import HELPS
from ringtree.nccl.faults import faults
from ringtree.nccl.files.deduced import off_algbw
from ringtree.nccl.files.measured_rows import NcclTestsRow
from ringtree.nccl.files.nccl_tests import Log
from ringtree.nccl.matching import SLOW_START, Compared, MiddleSize, is_impossible
from ringtree.nccl.releases import MODELLED, words
from ringtree.nccl.tuning.variables import FORCING

FEW_SIZES = 4
"""At most as many sizes are named one by one."""
BUS_FACTOR_WITHIN = 0.1
"""The share by which a log's bus bandwidth may be off its algorithm bandwidth times the collective's factor."""


def remarks_on(
    nccl_log: Log, cluster: Cluster, rows: Sequence[Compared], at_start: MiddleSize | None, forced: Mapping[str, str]
) -> Iterator[str]:
    """Yields lines on wrong results, slow starts, impossible times, other GPUs, variables that were set, and traps of
    the topology."""
    yield from nccl_log.inferred
    if wrong := [row for row in nccl_log.rows if row.wrong]:
        yield (
            f"WRONG RESULTS: {sum(row.wrong for row in wrong)} wrong elements at {_sizes(wrong)}, first in line "
            f"{min(row.wrong_line for row in wrong)}: memory or a link corrupts data: repair that before speed"
        )
    if at_start and at_start.ratio < 1 / SLOW_START:
        yield (
            f"small sizes take {1 / at_start.ratio:.1f} times the predicted: look at CPU frequency, at other programs "
            "on these cores, and at the fabric's set-up"
        )
    contradicting = set(off_algbw(nccl_log.rows))
    sound = (c for c in reversed(rows) if c.row not in contradicting)
    if over := next((c for c in sound if is_impossible(c.planned, c.row)), None):
        yield (
            f"{over.row.nbytes} B took less time than the topology allows: the log is from a larger machine; check "
            "--topology, --nics and --nodes"
        )
    yield from _factor(nccl_log, cluster)
    yield from _older(cluster, rows, forced)
    ran = {r.model for r in nccl_log.ran if r.model}
    for model in sorted({cluster.machine.devices[g].model for g in cluster.machine.gpus} - {""}):
        if ran and not any(model.split()[0].lower() in name.lower() for name in ran):
            yield f"the log ran on {', '.join(sorted(ran))}; the topology has {model}: is it the right one?"
    for what, name in FORCING.items():
        if name in nccl_log.debug.environment:
            taken = "" if what in forced else ": not taken into account"
            yield f"{name}={nccl_log.debug.environment[name]} was set{taken}"
    if "no_nvls" in nccl_log.debug.signs and Pattern.NVLS in ClusterPlan(cluster).graphs:
        seen = nccl_log.debug.signs["no_nvls"]
        yield f"line {seen.line}: {seen.text}; the prediction is with NVLink SHARP: is Fabric Manager running?"
    for note in cluster.machine.notes:
        if note.kind is NoteKind.TRAP:
            yield f"trap in the topology: {note.about}: {note.text}"


def shown_by_lines_alone(nccl_log: Log, cluster: Cluster, named: Collection[str]) -> Iterator[str]:
    """Yields a line for each fault that NCCL's lines show, beside those `named` by their keys as causes. Protocols, and
    multicast that is missing, have remarks of their own."""
    seen = {*named, *(["nvls_off"] if "no_nvls" in nccl_log.debug.signs else [])}
    for fault in faults(cluster) if nccl_log.debug else ():
        if fault.key in seen or fault.protocol is not None:
            continue
        if evidence := fault.evidence_for(nccl_log.debug):
            seen.add(fault.key)
            yield f"NCCL's lines show a fault that the figures do not: {fault.what} ({'; '.join(evidence)})"


def _sizes(rows: Sequence[NcclTestsRow]) -> str:
    """`8 B`, `8 B, 64 KiB and 1 MiB`, and of more than FEW_SIZES how many from the least to the largest."""
    found = [size(row.nbytes) for row in sorted(rows, key=lambda row: row.nbytes)]
    if len(found) > FEW_SIZES:
        return f"{len(found)} sizes from {found[0]} to {found[-1]}"
    return enumeration(found)


def _older(cluster: Cluster, rows: Sequence[Compared], forced: Mapping[str, str]) -> Iterator[str]:
    """A remark where the release of NCCL is older than the model's, which would be faster."""
    if cluster.nccl is not None and cluster.nccl < MODELLED and rows:
        last = rows[-1].planned
        newer = ClusterPlan(replace(cluster, nccl=None), **forced).candidates(last.collective, last.nbytes)[1]
        if last.pick.time_s >= HELPS * newer.time_s:
            yield (
                f"NCCL {words(cluster.nccl)}: the prediction is {last.pick.time_s / newer.time_s:.1f} times as fast "
                f"at {size(last.nbytes)} with {words(MODELLED)} ({newer.algorithm})"
            )


def _factor(nccl_log: Log, cluster: Cluster) -> Iterator[str]:
    """A remark where the log's bus bandwidth is by another factor than nccl-tests'."""
    known = COLLECTIVES.get(nccl_log.collective)
    row = next((r for r in reversed(nccl_log.rows) if r.algbw > 1 and r.busbw > 0), None)
    if known is not None and row is not None:
        expected, printed = known.bus_factor(cluster.ranks), row.busbw / row.algbw
        if abs(printed / expected - 1) > BUS_FACTOR_WITHIN:
            yield (
                f"line {row.line}: bus bandwidth is {printed:.3g} times algorithm bandwidth; expected {expected:.3g} "
                f"for {nccl_log.collective} over {cluster.ranks} ranks: compare times, not bus bandwidths"
            )
