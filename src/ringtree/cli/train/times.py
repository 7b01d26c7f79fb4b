"""The predicted time of a step's communication as text and as JSON: `ringtree train --plan --topology`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ringtree.cli import table
from ringtree.cli.arguments.cluster import cluster_of_ranks
from ringtree.cli.plan import records
from ringtree.cli.plan.table import describe
from ringtree.draw import machine_words
from ringtree.draw.text.lines import Line, TextSpan
from ringtree.ir import units
from ringtree.machines.clusters import Cluster
from ringtree.machines.sharing import groups_a_nic
from ringtree.nccl.cluster_plan import ClusterPlan
from ringtree.nccl.link_speeds import own_library
from ringtree.training import TrainingPlan
from ringtree.training.predict.step_times import PricedCalls, StepPricing, StepTimes

ENDS = {"time_us": "time_s", "low_us": "low_s", "high_us": "high_s"}
HEAD = ("by", "over", "calls", "a call", "together", "interval", "choice")
WITHOUT = (
    "one after another: neither overlap, nor computation, nor waiting for other ranks is in it; in training, much of",
    "the gradients' time is that of the backward pass, which goes on meanwhile",
)


def predicted(plan: TrainingPlan, args: argparse.Namespace) -> PredictedPlan:
    """The times on the cluster that the options name. ValueError, in one line, for a cluster that cannot be, or of
    which NCCL's model has none."""
    cluster = cluster_of_ranks(args, plan.layout.ranks)
    if plan.layout.ranks > 1:
        ClusterPlan(cluster)  # ValueError where nothing on this cluster can be priced
    return PredictedPlan(plan, cluster, StepPricing(plan, cluster).times)


@dataclass(frozen=True, slots=True)
class PredictedPlan:
    """A training plan, a cluster for its ranks, and the times of a step's calls there."""

    plan: TrainingPlan
    cluster: Cluster
    times: StepTimes

    @property
    def kinds(self) -> list[list[PricedCalls]]:
        """The calls by what they carry, by which collective and over which axis."""
        found: dict[tuple[str, str, str], list[PricedCalls]] = {}
        for priced in self.times.priced:
            calls = priced.calls
            found.setdefault((calls.what, calls.collective, calls.axis), []).append(priced)
        return list(found.values())

    def lines(self) -> list[Line]:
        """The cluster, the table, and what is not in it; none where a step sends nothing."""
        return [(TextSpan(line),) for line in self._text()] if self.times.priced else []

    def record(self) -> dict[str, Any]:
        """The same as JSON, each size of calls by itself."""
        return {
            "cluster": records.cluster(self.cluster),
            "pp": self.times.position,
            "calls": [self._record(priced) for priced in self.times.priced],
            "not_priced_at": [{"pp": position, "why": why} for position, why in self.times.elsewhere],
            "all_priced": not (self.times.why or self.times.elsewhere),
            **{name: self.times.seconds(which) * 1e6 or None for name, which in ENDS.items()},
        }

    def _text(self) -> Iterator[str]:
        yield ""
        yield from on_cluster(self.cluster)
        yield from self._places()
        yield ""
        yield from self._table()
        yield ""
        yield from WITHOUT
        if self.times.why and self.times.seconds():
            yield "the sum is without the calls that are not priced"
        for reason in dict.fromkeys(why for _, why in self.times.elsewhere):
            at = ", ".join(str(position) for position, why in self.times.elsewhere if why == reason)
            yield f"ranks at pp {at} have calls that are not priced, and may take longer: {reason}"
        if any(p.calls.between for p in self.times.priced):
            yield "a message counts for the rank that sends it, and for the one that receives it"

    def _places(self) -> Iterator[str]:
        """The place of each axis's groups, and how many of them share a NIC."""
        found = []
        for axis, where in dict.fromkeys((p.calls.axis, p.where) for p in self.times.priced if p.where):
            sharers = groups_a_nic(self.cluster.machine, where.gpus, where.beside)
            words = f"; {sharers} such groups share a NIC, whose rate is divided among them" if sharers > 1 else ""
            found.append(f"{'a pair' if axis == 'pp' else 'a group'} of {axis}: {where.words}{words}")
        yield from dict.fromkeys(found)

    def _table(self) -> Iterator[str]:
        whose = f"a rank at pp {self.times.position}" if self.plan.layout.pp > 1 else "a rank"
        rows: list[tuple[str, ...]] = [(f"{whose} calls in a step", *HEAD)]
        whys = [""]
        for found in self.kinds:
            rows.append(self._row(found))
            whys.append(next((p.why for p in found if p.why), ""))
        if all_s := self.times.seconds():
            spread = table.spread(self.times.seconds("low_s"), all_s, self.times.seconds("high_s"))
            rows.append(("", "", "", "", "", units.duration(all_s), spread, ""))
            whys.append("")
        for text, why in zip(table.aligned(rows, 3), whys, strict=True):
            yield f"{text}  not priced: {why}" if why else text

    def _row(self, found: list[PricedCalls]) -> tuple[str, ...]:
        calls = found[0].calls
        sizes = sorted({p.calls.nbytes for p in found})
        nbytes = " to ".join(dict.fromkeys((units.size(sizes[0]), units.size(sizes[-1])))) if sizes[-1] else ""
        times = sum(p.calls.times for p in found)
        over = f"{calls.axis} of {self.plan.layout.size(calls.axis)}"
        head = (f"  {calls.what}", calls.collective, over, f"{times:,}" if times else "", nbytes)
        priced = StepTimes(self.times.position, tuple(found))
        if any(p.time is None for p in found) or not (all_s := priced.seconds()):
            return (*head, "", "", "")
        spread = table.spread(priced.seconds("low_s"), all_s, priced.seconds("high_s"))
        return (*head, units.duration(all_s), spread, _choice(found))

    def _record(self, priced: PricedCalls) -> dict[str, Any]:
        calls, where, time = priced.calls, priced.where, priced.time
        record: dict[str, Any] = asdict(calls) | {"ranks": self.plan.layout.size(calls.axis)}
        if where:
            record |= {"nodes": where.nodes, "gpus": where.gpus}
            record["groups_a_nic"] = groups_a_nic(self.cluster.machine, where.gpus, where.beside)
        if time is None:
            return record | {"not_priced": priced.why}
        record |= {name: getattr(time, which) * 1e6 for name, which in ENDS.items()}
        return record | {"algorithm": time.algorithm, "protocol": time.protocol}


def on_cluster(cluster: Cluster) -> Iterator[str]:
    """The cluster in words: the caveats of its machines, whose library runs there, and where ranks lie."""
    gpus = len(cluster.machine.gpus)
    yield f"predicted, not measured, on {describe(cluster)}"
    yield from machine_words.caveats(cluster.machine)
    if own := own_library(cluster.machine):
        yield f"NCCL does not run on {cluster.machine.name}, {own} does: NCCL's rules are used in its place"
    yield f"rank r is GPU r mod {gpus} of machine r // {gpus}"


def _choice(found: list[PricedCalls]) -> str:
    """NCCL's choice for the calls that take most of the time."""
    timed = [(p.calls.times * p.time.time_s, p.time) for p in found if p.time]
    most = max(timed, key=lambda pair: pair[0])[1]
    return f"{most.algorithm}/{most.protocol}"
