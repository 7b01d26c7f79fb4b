"""The estimated time of whole steps beside published ones: `python -m benchmarks.published_steps`, with RINGTREE_DATA.

Tables 3 and 5 of Korthikanti et al. (MLSys 2023, arXiv:2205.05198): models of 22 B to 1 T parameters on A100s, eight
tensor and sequence parallel ranks, pipelines of 1 to 64 stages. An estimate needs the rate at which a GPU computes, and
the paper has none; so the table has the rate at which the estimate is the published time.

The paper has each model's step with all activations computed again, too: it is estimated at that rate. These trainings
had no sequence parallelism, but Megatron-LM's pipelines sent each tensor parallel rank's share of the activations alone
and gathered the rest in a machine, which moves the bytes of sequence parallelism.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ringtree.machines.clusters import Cluster
from ringtree.machines.files.reading import find
from ringtree.topology.fabrics import FABRICS
from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from ringtree.training.predict.step_times import StepPricing, StepTimes
from ringtree.training.predict.whole_step import WholeStep

VOCABULARY, CONTEXT, NOMINAL_FLOPS_A_S = 51200, 2048, 312e12
FILE = "measured/korthikanti_table3_table5.csv"


@dataclass(frozen=True, slots=True)
class PublishedStep:
    """A row of the tables. `chunks`: stages that a rank of the pipeline had; with more than one the plans have two.
    `plans`: of the model's layers, or where two stages a rank do not divide them evenly, as its own did, of the next
    fewer and the next more that they do: the estimate lies between theirs. `recomputed_s`: the step with all
    activations computed again."""

    model: str
    layers: int
    plans: tuple[TrainingPlan, ...]
    chunks: int
    step_s: float
    recomputed_s: float

    def rate_flops_a_s(self) -> float:
        """The rate at which the estimate is the published time."""
        steps = [(plan, _times(plan)) for plan in self.plans]
        low, high = 1e12, 1e16
        while high / low > 1.0001:
            middle = (low * high) ** 0.5
            low, high = (middle, high) if self._estimate_s(steps, middle) > self.step_s else (low, middle)
        return low

    def estimated_recomputed_s(self) -> float:
        """The estimate of `recomputed_s` at the rate of the other step."""
        plans = [replace(plan, layout=replace(plan.layout, recompute=True)) for plan in self.plans]
        return self._estimate_s([(plan, _times(plan)) for plan in plans], self.rate_flops_a_s())

    def _estimate_s(self, steps: Sequence[tuple[TrainingPlan, StepTimes]], flops_a_s: float) -> float:
        """The step of the model's layers at a rate, on the line through those of the plans' layers."""
        estimates_s = [WholeStep(plan, times, flops_a_s).overlapped_s for plan, times in steps]
        return float(np.interp(self.layers, [plan.shape.layers for plan in self.plans], estimates_s))


def _times(plan: TrainingPlan) -> StepTimes:
    machine = find("dgx-a100")
    nodes = plan.layout.ranks // len(machine.gpus)
    return StepPricing(plan, Cluster(machine, nodes, FABRICS["infiniband"] if nodes > 1 else None)).times


def published(data: Path) -> list[PublishedStep]:
    """The rows with sequence parallelism and selective recomputation."""
    lines = [line for line in (data / FILE).read_text().splitlines() if not line.startswith("#")]
    found = []
    for row in csv.DictReader(lines):
        width, heads, layers, tp, pp = (int(row[name]) for name in ("hidden", "heads", "layers", "tp", "pp"))
        batch, chunks = int(row["global_batch"]), int(row["interleave_v"])
        schedule = "interleaved" if chunks > 1 else "1f1b"
        layout = ParallelLayout(tp=tp, pp=pp, sp=True, schedule=schedule, micro_batches=batch // int(row["microbatch"]))
        stages, settings = pp * min(chunks, 2), TrainingSettings(batch=batch)
        evenly = sorted({layers // stages * stages, -(-layers // stages) * stages})
        shapes = (Shape(width, each, heads, CONTEXT, VOCABULARY) for each in evenly)
        plans = tuple(TrainingPlan(layout, shape, settings, "bfloat16") for shape in shapes)
        steps_s = float(row["iter_s_seqpar_selective"]), float(row["iter_s_full_recompute"])
        found.append(PublishedStep(row["model"], layers, plans, chunks, *steps_s))
    return found


def main() -> None:
    """Prints the table."""
    if (folder := os.environ.get("RINGTREE_DATA")) is None:
        sys.exit("no tables: set RINGTREE_DATA to the folder that has measured/")
    print("model  GPUs  stages a rank  published step  estimated alike at                     recomputed  estimated")
    for one in published(Path(folder)):
        layout, rate = one.plans[0].layout, one.rate_flops_a_s()
        of_nominal = f"{rate / 1e12:.0f} TFLOP/s, {rate / NOMINAL_FLOPS_A_S:.0%} of the nominal rate"
        recomputed = f"{one.recomputed_s:8.2f} s  {one.estimated_recomputed_s():7.2f} s"
        print(f"{one.model:5}  {layout.ranks:4}  {one.chunks:13}  {one.step_s:12.2f} s  {of_nominal}  {recomputed}")


if __name__ == "__main__":
    main()
