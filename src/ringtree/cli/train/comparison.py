"""Layouts of as many ranks beside one another, as text and as JSON: `ringtree train --plan --topology --compare`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ringtree.cli import table, terminal
from ringtree.cli.arguments.byte_sizes import MOST_BYTES, parse_bytes
from ringtree.cli.arguments.cluster import cluster_of_ranks
from ringtree.cli.plan import records
from ringtree.cli.train.layouts import AllowedLayouts, PlanOf, allowed
from ringtree.cli.train.plan import model_words
from ringtree.cli.train.times import PredictedPlan, on_cluster
from ringtree.draw.text.lines import Line, TextSpan
from ringtree.ir import units
from ringtree.machines.clusters import Cluster
from ringtree.machines.parts.gpus import GPUS
from ringtree.nccl.cluster_plan import ClusterPlan
from ringtree.training import Shape, TrainingPlan
from ringtree.training.core.layout import AXES
from ringtree.training.predict.comparison import PricedLayout, compared
from ringtree.training.predict.plan_memory import PlanMemory, RankMemory

MOST_RANKS = 1 << 14
LEAST_TFLOPS, MOST_TFLOPS = 1e-3, 1e6


def _microseconds(time_us: float) -> str:
    return units.duration(time_us / 1e6)


STEPS: dict[str, tuple[str, Callable[[float], str]]] = {
    "step": ("step_us", _microseconds),
    "tokens/s": ("tokens_a_s", "{:,.0f}".format),
    "TFLOP/s": ("model_flops_a_s", lambda flops_a_s: f"{flops_a_s / 1e12:.3g}"),
    "serial": ("serial_us", _microseconds),
    "computing": ("computing_us", _microseconds),
}
"""The columns of a whole step, their names as JSON, and their words."""
BEHIND = (
    "together: a rank's calls in a step, one after another: neither overlap, nor computation, nor waiting for other",
    "ranks is in it; in training, much of the gradients' time is that of the backward pass, which goes on meanwhile",
    "bubble: how long the rank that computes most waits for other stages, over its computing",
    "parameters: of the rank with the most",
    "memory: the parameters, gradients and optimizer's state, between two steps, of the rank that needs most in all",
    "activations: what its forward passes save on top; smaller micro-batches save less",
)
RECOMPUTED = (
    "recompute: each block keeps its input alone, and is computed again in the backward pass; activations have those",
    "of one block; --no-recompute leaves it out, --recompute has it everywhere",
)
GATHERED = (
    "gathered: within a step on top, with ZeRO 2 all parameters, with 3 two blocks and the part outside, and a block's",
    "gradients; of a pipeline's stage all parameters and all gradients; counted in the share of a GPU's memory",
)
UNKNOWN = "the memory of asynchronous training is not predicted"
DEFAULT_MODEL = "the default model, made to train in seconds: give yours by --layers, --width and others of its shape"
EXPERTS = "experts: tokens choose them evenly, and none is dropped; more choices of one expert save more on its rank"
OF_STEPS = (
    "step, an estimate: computing and the calls that the next layer waits for, by stages in a pipeline's order; the",
    "pipeline's messages; and gradients as far as the backward pass does not cover their calls (serial: in full)",
    "computing: the operations of matrix products of the rank that has the most, at {rate}",
    "tokens/s: of all ranks; TFLOP/s: the model's operations, of each GPU; over its nominal rate, that is the MFU",
    "micro-batches: as given, else the quickest of the numbers that divide a rank's rows and whose activations fit",
)


def predicted(args: argparse.Namespace, plan_of: PlanOf) -> PredictedLayouts:
    """The layouts that the options allow on the cluster that they name. `plan_of`: the plan of such options.
    ValueError, in one line, where there is none, or for a cluster that cannot be."""
    if not 1 <= args.compare <= MOST_RANKS:
        raise ValueError(f"--compare {args.compare}: expected 1 to {MOST_RANKS:,} ranks")
    cluster = cluster_of_ranks(args, args.compare)
    ClusterPlan(cluster)  # ValueError where nothing on this cluster can be priced
    memory_nbytes, flops_a_s = _memory_nbytes(args, cluster), _flops_a_s(args)
    among = allowed(args, plan_of)
    may_recompute = args.recompute is None and flops_a_s is not None
    plans = [plan for its in among.plans for plan in _fitting(its, memory_nbytes, may_recompute)]
    found = list(compared(terminal.counted("layouts", plans), cluster))
    layouts = PredictedLayouts(cluster, found, among, memory_nbytes, flops_a_s)
    best = dict[tuple[int, ...], PricedLayout]()
    for one in sorted(found, key=layouts.place):
        best.setdefault(tuple(getattr(one.plan.layout, axis) for axis in AXES), one)
    return replace(layouts, layouts=list(best.values()))


def _flops_a_s(args: argparse.Namespace) -> float | None:
    """The operations that a GPU computes in a second; None where the options do not name them."""
    if args.tflops is None:
        return None
    if args.async_staleness is not None:
        raise ValueError("--tflops: asynchronous training has no common step whose time could be estimated")
    if not LEAST_TFLOPS <= args.tflops <= MOST_TFLOPS:
        raise ValueError(f"--tflops {args.tflops:g}: expected the rate of a GPU, such as 400")
    return float(args.tflops) * 1e12


def _memory_nbytes(args: argparse.Namespace, cluster: Cluster) -> int | None:
    """The memory of a GPU: that of the options, else the least of the cluster's GPUs; None where one is unknown."""
    if args.memory is not None:
        try:
            if given_nbytes := parse_bytes(args.memory):
                return given_nbytes
        except ValueError:
            pass
        raise ValueError(f"--memory {args.memory}: expected a size above 0 and up to {MOST_BYTES >> 50}P, such as 60G")
    parts = [GPUS.get(cluster.machine.devices[gpu].model) for gpu in cluster.machine.gpus]
    return min((part.memory_GiB << 30 for part in parts if part), default=None) if all(parts) else None


def _fitting(plans: Sequence[TrainingPlan], memory_nbytes: int | None, may_recompute: bool) -> Sequence[TrainingPlan]:
    """The plans of a layout that fit into the memory, or else the one that needs least: only these are priced.
    `may_recompute`: a plan that does not fit may have its blocks computed again."""
    if not memory_nbytes or (len(plans) == 1 and not may_recompute):
        return plans
    fitting, too_large = list[TrainingPlan](), list[tuple[int, TrainingPlan]]()
    for plan in plans:
        again = [replace(plan, layout=replace(plan.layout, recompute=True))] if may_recompute else []
        for its in (plan, *again):
            if (nbytes := _needed_nbytes(its)) <= memory_nbytes:
                fitting.append(its)
                break
            too_large.append((nbytes, its))
    return fitting or [min(too_large, key=lambda pair: pair[0])[1]]


def _needed_nbytes(plan: TrainingPlan) -> int:
    return PlanMemory(plan).fullest(saved=True).needed_nbytes(saved=True)


@dataclass(frozen=True, slots=True)
class PredictedLayouts:
    """Layouts on a cluster, first those that communicate least, or whose steps are quickest where the rate of the GPUs'
    computing is known; then those of which it is not known whether they fit into their memory; then those of which
    calls have no price; then those that do not fit."""

    cluster: Cluster
    layouts: Sequence[PricedLayout]
    among: AllowedLayouts
    memory_nbytes: int | None
    flops_a_s: float | None = None

    def place(self, one: PricedLayout) -> tuple[bool, bool, bool, int, float]:
        """The key by which layouts are sorted: those that are too large last, by what they need."""
        whole = one.whole(self.flops_a_s).overlapped_s if self.flops_a_s else one.times.seconds()
        too_large = self.is_too_large(one)
        return too_large, bool(one.why), not self.is_known(one), self.needed_nbytes(one) if too_large else 0, whole

    def is_known(self, one: PricedLayout) -> bool:
        """Whether it is known what a rank needs, or nothing is compared with it."""
        return not self.memory_nbytes or one.memory.is_known

    def is_too_large(self, one: PricedLayout) -> bool:
        """Whether a rank holds more than a GPU's memory has."""
        return bool(self.memory_nbytes and self.needed_nbytes(one) > self.memory_nbytes)

    def needed_nbytes(self, one: PricedLayout) -> int:
        """The bytes that a rank holds between two steps, and gathers within one; and its activations, where
        micro-batches are chosen for them."""
        return self.fullest(one).needed_nbytes(saved=bool(self.flops_a_s))

    def fullest(self, one: PricedLayout) -> RankMemory:
        """The memory of the rank that needs most of it."""
        return one.memory.fullest(saved=bool(self.flops_a_s))

    def lines(self) -> list[Line]:
        """The model, the cluster and the table."""
        return [(TextSpan(line),) for line in self._text()]

    def record(self) -> dict[str, Any]:
        """The same as JSON, each layout with its calls as `--plan --topology --json` has them."""
        return {
            "cluster": records.cluster(self.cluster),
            "memory_nbytes": self.memory_nbytes,
            "flops_a_s": self.flops_a_s,
            "refused": [{"layouts": one.layouts, "why": one.why} for one in self.among.refused],
            "layouts": [
                {
                    "layout": one.plan.record()["layout"],
                    "parameters": one.parameters,
                    **asdict(self.fullest(one)),
                    "bubble": one.bubble,
                    **self._steps(one),
                    "predicted": PredictedPlan(one.plan, self.cluster, one.times).record(),
                }
                for one in self.layouts
            ],
        }

    def _steps(self, one: PricedLayout) -> dict[str, float]:
        """The times of a whole step and the rates that follow, where they can be estimated."""
        if not self.flops_a_s or one.why:
            return {}
        whole = one.whole(self.flops_a_s)
        times_s = {"step_us": whole.overlapped_s, "serial_us": whole.serial_s, "computing_us": whole.computing_s}
        rates = {"tokens_a_s": whole.tokens_a_s, "model_flops_a_s": whole.model_flops_a_s}
        return {name: time_s * 1e6 for name, time_s in times_s.items()} | rates

    def _text(self) -> Iterator[str]:
        plan = self.layouts[0].plan
        shape, ranks = plan.shape, plan.layout.ranks
        layouts = units.count(len(self.layouts), "layout")
        first = "the quickest step" if self.flops_a_s else "the least communication"
        yield f"{layouts} of {units.count(ranks, 'rank')}, {first} first"
        yield f"{model_words(plan)}, {plan.dtype}"
        if (shape.layers, shape.width) == (Shape().layers, Shape().width):
            yield DEFAULT_MODEL
        sequences = f"{units.count(plan.settings.batch, 'sequence')} of {shape.context} bytes"
        yield f"a step reads {sequences}, {plan.settings.batch * shape.context:,} tokens"
        yield from on_cluster(self.cluster)
        yield ""
        yield from self._table()
        yield ""
        yield from dict.fromkeys(f"not priced: {one.why}" for one in self.layouts if one.why)
        if self.flops_a_s:
            yield from (line.format(rate=f"{self.flops_a_s / 1e12:g} TFLOP/s") for line in OF_STEPS)
        yield from BEHIND
        if shape.experts:
            yield EXPERTS
        if any(one.plan.layout.recompute for one in self.layouts):
            yield from RECOMPUTED
        if any(self.fullest(one).gathered_nbytes for one in self.layouts):
            yield from GATHERED
        if refused := self.among.words():
            yield refused
        if unknown := sum(not self.is_known(one) for one in self.layouts):
            yield f"{units.count(unknown, 'layout')} not known to fit: {UNKNOWN}"
        if large := sum(map(self.is_too_large, self.layouts)):
            yield f"{units.count(large, 'layout')} of more than a GPU's memory, at the end of the table"

    def _table(self) -> Iterator[str]:
        along = list(dict.fromkeys(axis for one in self.layouts for axis in one.by_axis_s()))
        rows = [self._cells(one, along) for one in self.layouts]
        yield from table.aligned([tuple(rows[0]), *(tuple(row.values()) for row in rows)], 1)

    def _cells(self, one: PricedLayout, along: Sequence[str]) -> dict[str, str]:
        """The row of a layout, by the heads of its columns."""
        layout, times, by_axis_s = one.plan.layout, one.times, one.by_axis_s()
        name = " x ".join(f"{axis} {size}" for axis in AXES if (size := getattr(layout, axis)) > 1) or "one rank"
        all_s, spread = times.seconds(), ""
        if all_s and not one.why:
            spread = table.spread(times.seconds("low_s"), all_s, times.seconds("high_s"))
        cells = {"layout": name}
        if self.flops_a_s:
            steps = self._steps(one)
            cells["micro-batches"] = str(layout.micro_batches)
            if any(other.plan.layout.recompute for other in self.layouts):
                cells["recompute"] = "yes" if layout.recompute else ""
            cells |= {head: words(steps[key]) if steps else "" for head, (key, words) in STEPS.items()}
        cells |= {"together": "not priced" if one.why else units.duration(all_s), "interval": spread}
        cells |= {axis: units.duration(by_axis_s[axis]) if by_axis_s.get(axis) else "" for axis in along}
        cells |= {"bubble": f"{one.bubble:.0%}" if layout.pp > 1 else "", "parameters": f"{one.parameters:,}"}
        return cells | self._memory(one)

    def _memory(self, one: PricedLayout) -> dict[str, str]:
        rank = self.fullest(one)
        held, saved = (None if n is None else units.size(n) for n in (rank.held_nbytes, rank.saved_nbytes))
        of_all = {}
        if self.memory_nbytes:
            share = f"{self.needed_nbytes(one) / self.memory_nbytes:.0%}" if self.is_known(one) else ""
            of_all = {f"of {units.size(self.memory_nbytes)}": share}
        memory, activations = {"memory": held or ""}, {"activations": saved or ""}
        if any(self.fullest(other).gathered_nbytes for other in self.layouts):
            memory["gathered"] = units.size(rank.gathered_nbytes) if rank.gathered_nbytes else ""
        return memory | activations | of_all if self.flops_a_s else memory | of_all | activations
