"""The table of `ringtree plan`, in nccl-tests' manner, and what follows from it in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from ringtree.cli import table
from ringtree.draw import machine_words
from ringtree.ir.units import bandwidth, count, duration, line_rate, size
from ringtree.machines.clusters import Cluster, NetworkShape
from ringtree.nccl import releases
from ringtree.nccl.cluster_plan import ClusterPlan, Planned
from ringtree.nccl.estimate import Estimate
from ringtree.nccl.link_speeds import own_library, runs_rccl
from ringtree.nccl.tuning.variables import as_variable

NETWORKS = {NetworkShape.RAILS: "rails", NetworkShape.FAT_TREE: "a fat tree", NetworkShape.TORUS: "a torus"}
HEADER = (
    "size (B)",
    "algorithm",
    "protocol",
    "channels",
    "time (us)",
    "interval",
    "algbw (GB/s)",
    "busbw (GB/s)",
    "of bound",
)
WIDTHS = (13, 15, 9, 9, 12, 11, 13, 13, 9)


def lines(plan: ClusterPlan, rows: Sequence[Planned], every: bool = False) -> Iterator[str]:
    """Yields the table and the conclusions from it. `every`: all candidates of each size, fastest first."""
    yield f"# {rows[0].collective} over {rows[0].ranks} ranks, predicted, not measured"
    yield f"# on {describe(plan.cluster)}"
    yield from (f"# {text}" for text in machine_words.caveats(plan.cluster.machine))
    time = "NCCL's estimate" if plan.model == "nccl" else "ringtree's model of the hardware"
    yield f"# {_choices(plan)}; time: {time}"
    if own := own_library(plan.cluster.machine):
        yield f"# NCCL does not run on {plan.cluster.machine.name}, {own} does: NCCL's rules are used in its place"
    yield "#"
    yield f"{table.head(HEADER, WIDTHS)}  bottleneck"
    for row in rows:
        for estimate in row.candidates if every else (row.pick,):
            yield _line(plan, row, estimate) + (f"  <- {_chooser(plan)}" if every and estimate is row.pick else "")
    yield "#"
    for line in (*_conclusions(rows), *_unknown(plan, rows[-1])):
        yield f"# {line}"
    if why := plan.shortfall(rows[-1]):
        yield f"# far from the bound: {'; '.join(why)}"


def _choices(plan: ClusterPlan) -> str:
    """The source of algorithm, protocol and channels: `algorithm nvls_tree as given, protocol and channels: NCCL's
    choice`."""
    forced = {"algorithm": plan.algorithm, "protocol": plan.protocol}
    given = " and ".join(f"{what} {name}" for what, name in forced.items() if name)
    left = [*(what for what, name in forced.items() if not name), "channels"]
    of_choice = f"{', '.join(left[:-1])}{' and ' * (len(left) > 1)}{left[-1]}: {_chooser(plan)}"
    return f"{given} as given; {of_choice}" if given else of_choice


def _chooser(plan: ClusterPlan) -> str:
    machine = plan.cluster.machine
    if own_library(machine):
        return "by NCCL's rules"
    return f"{'RCCL' if runs_rccl(machine) else 'NCCL'}'s choice"


def _line(plan: ClusterPlan, row: Planned, estimate: Estimate) -> str:
    algbw, busbw = row.bandwidths_GBps(estimate)
    around = plan.interval(row, estimate)
    cells = (
        row.nbytes, estimate.algorithm, estimate.protocol, estimate.channels, table.microseconds(estimate.time_s),
        table.spread(around.low_s, estimate.time_s, around.high_s) if around else "-",
        f"{algbw:.2f}", f"{busbw:.2f}", f"{row.bound_fraction(estimate):.0%}",
    )  # fmt: skip
    return f"{table.row(cells, WIDTHS)}  {estimate.bottleneck}"


def describe(cluster: Cluster) -> str:
    """`dgx-h100 x4: 8 GPUs a node, 8 NICs of 50 GB/s (400 Gb/s), infiniband over rails`."""
    machine = cluster.machine
    words = [f"{count(len(machine.gpus), 'GPU')} a node"]
    if cluster.nodes > 1 and cluster.fabric:
        rates = {machine.devices[n].rate_Bps for n in machine.nics}
        rates_text = " or ".join(f"{bandwidth(r)} ({line_rate(r)})" for r in sorted(rates))
        words.append(f"{count(len(machine.nics), 'NIC')} of {rates_text}")
        words.append(f"{cluster.fabric.name} over {NETWORKS[cluster.network]}")
        if cluster.oversubscription > 1:
            words.append(f"oversubscribed {cluster.oversubscription:g} to 1")
        if cluster.sharp:
            words.append("SHARP")
    if cluster.nccl:
        words.append(releases.named_as_modelled(cluster.nccl))
    return f"{cluster.name}: {', '.join(words)}"


def _conclusions(rows: Sequence[Planned]) -> Iterator[str]:
    """Yields NCCL's choice by size, faster choices, and the lower bound of the largest size."""
    last = rows[-1]
    for first, run in _runs(rows, lambda row: _named(row.pick)):
        yield f"{first} {_span(run, last)}"
    for name, run in _runs(rows, lambda row: _named(row.quicker) if row.quicker else ""):
        if name:
            saved = max(1 - row.candidates[0].time_s / row.pick.time_s for row in run)
            best = run[0].candidates[0]
            yield (
                f"{name} is predicted to be faster {_span(run, last)}, by up to {saved:.0%}: "
                f"NCCL_ALGO={as_variable(best.algorithm)} NCCL_PROTO={as_variable(best.protocol)}"
            )
    reached = f"{duration(last.pick.time_s)}, {last.bandwidths_GBps(last.pick)[1]:.1f} GB/s busbw"
    yield (
        f"{size(last.nbytes)}: {reached}, {last.bound_fraction(last.pick):.0%} of bound; "
        f"bottleneck: {last.pick.bottleneck}"
    )
    yield f"lower bound {duration(last.bound.time_s)}: {last.bound.bottleneck}"


def _unknown(plan: ClusterPlan, last: Planned) -> Iterator[str]:
    """Yields the widest unknown of the largest size, and the measured systems that the interval is learnt from."""
    around = plan.interval(last, last.pick)
    if around is None:
        return
    if around.parts:
        yield f"interval at {size(last.nbytes)}, widest unknown: {around.parts[0].why}"
    scale = around.scale
    if scale.alike:
        yield f"compared with {count(len(scale.systems), 'measured system')} of this class: {scale.of}"
    else:
        yield f"no measured system of this class was compared ({scale.of}): the interval is wide"


def _runs(rows: Sequence[Planned], key: Callable[[Planned], str]) -> Iterator[tuple[str, Sequence[Planned]]]:
    for name, run in groupby(rows, key):
        yield name, list(run)


def _span(run: Sequence[Planned], last: Planned) -> str:
    """`at 1 MiB`, `from 8 B to 64 KiB`, and to the end `from 128 KiB`."""
    first, end = size(run[0].nbytes), size(run[-1].nbytes)
    if len(run) == 1:
        return f"at {first}"
    return f"from {first}" if run[-1] is last else f"from {first} to {end}"


def _named(estimate: Estimate) -> str:
    return f"{estimate.algorithm}/{estimate.protocol}"
