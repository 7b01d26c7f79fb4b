"""Asynchronous training beside synchronous: what staleness does to the loss, what a slow rank holds up, and what goes
through the busiest rank, from parameter servers, peers and ring all-reduce; in one run, by turns.

    python benchmarks/asynchronous.py                    two minutes on two cores

Loss: every rank does the same number of steps, always on the same rows. A loss is the mean over the ranks' last steps;
the loss at the end is that of the final weights on text that nobody trained on.

The figures go to benchmarks/asynchronous.json and into docs/parallelism/asynchronous.md, between
`<!-- measured: staleness -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import date
from math import inf
from pathlib import Path
from statistics import mean, median
from typing import Any

from ringtree.bench.machine import describe
from ringtree.files.replacing import replace_with_json
from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "parallelism" / "asynchronous.md"
RANKS = 4
"""Of the exchanges; of the losses 2, of which one is slow, so that what is missing without a bound is half."""
SHAPE = Shape(width=32, layers=2, heads=4, context=32)
SLOW_RANK, SLOW_FACTOR = 1, 16.0
BATCH = 16
WARM_UP, EXCHANGE_STEPS, THROUGHPUT_STEPS = 2, 20, 15
LAST = 5
"""Steps whose losses are averaged."""
BOUNDS: tuple[float | None, ...] = (None, 0, 1, 2, 3, 4, inf)
EXCHANGES = (("ring all-reduce (DDP)", None), ("central", 1), ("sharded", 1), ("peers", 1))


def run(plan: TrainingPlan) -> dict[str, Any]:
    """On a rank: what a training comes to; times and bytes without the first steps, in which much is done once."""
    from ringtree.training import Trainer
    from ringtree.training.core.language_model import loss_of
    from ringtree.training.core.rows import batch
    from ringtree.training.measure.wire import meet, received_nbytes

    trainer = Trainer(plan)
    losses = [float(trainer.step()) for _ in range(WARM_UP)]
    trainer.drain()
    meet()
    before = received_nbytes()
    meet()
    begun_s = time.perf_counter()
    losses += [float(trainer.step()) for _ in range(plan.settings.steps)]
    lasted_s = time.perf_counter() - begun_s
    trainer.drain()
    meet()
    nbytes = (received_nbytes() - before) / plan.settings.steps
    means, staleness = trainer.mean_losses(losses), dict(trainer.staleness)
    trainer.collect()
    rows, wanted = batch(1 << 20, 64, plan.shape.context, 1)
    trainer.model.eval()
    at_the_end = float(loss_of(getattr(trainer.model, "module", trainer.model)(rows), wanted).detach())
    trainer.close()
    return {
        "loss": mean(means[-LAST:]), "end": at_the_end, "staleness": staleness, "seconds": lasted_s,
        "received_nbytes": nbytes,
    }  # fmt: skip


def _rank(pipe: Any, rank: int, ranks: int, file: str) -> None:
    os.environ.update(RINGTREE_ALGORITHM="ring")
    import torch
    import torch.distributed as dist

    import ringtree.torch_backend  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group("ringtree", store=dist.FileStore(file, RANKS), rank=rank, world_size=ranks)
    while (plan := pipe.recv()) is not None:
        pipe.send(run(plan))
    dist.destroy_process_group()


class World:
    """Ranks, which train one plan after another."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks

    def __enter__(self) -> Callable[[TrainingPlan], list[dict[str, Any]]]:
        self._folder = tempfile.TemporaryDirectory()
        context = multiprocessing.get_context("spawn")
        self._pipes = []
        for rank in range(self._ranks):
            ours, theirs = context.Pipe()
            context.Process(
                target=_rank, args=(theirs, rank, self._ranks, f"{self._folder.name}/store"), daemon=True
            ).start()
            self._pipes.append(ours)
        return self._train

    def _train(self, plan: TrainingPlan) -> list[dict[str, Any]]:
        for pipe in self._pipes:
            pipe.send(plan)
        return [pipe.recv() for pipe in self._pipes]

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.send(None)


def losses(train: Callable[[TrainingPlan], list[dict[str, Any]]], steps: int, repeats: int) -> list[dict[str, Any]]:
    """At each bound, by turns; the rank that is slow is so in all."""
    rows: dict[float | None, list[list[dict[str, Any]]]] = {bound: [] for bound in BOUNDS}
    for seed in range(repeats):
        for bound in BOUNDS:
            settings = TrainingSettings(steps, BATCH, seed=seed, slow_rank=SLOW_RANK, slow_factor=SLOW_FACTOR)
            rows[bound].append(train(TrainingPlan(ParallelLayout(dp=2, staleness=bound), SHAPE, settings)))
    return [_row(bound, runs) for bound, runs in rows.items()]


def _row(bound: float | None, runs: list[list[dict[str, Any]]]) -> dict[str, Any]:
    staleness: Counter[int] = Counter()
    for ranks in runs:
        for rank in ranks:
            staleness.update(rank["staleness"])
    return {
        "bound": bound if bound is None else str(bound),
        "loss": [ranks[0]["loss"] for ranks in runs],
        "end": [ranks[0]["end"] for ranks in runs],
        "staleness": {str(k): staleness[k] for k in sorted(staleness)},
    }


def throughputs(train: Callable[[TrainingPlan], list[dict[str, Any]]], repeats: int) -> list[dict[str, Any]]:
    """Steps of both ranks in a second, one of them slow, by turns."""
    steps, bounds = THROUGHPUT_STEPS, (None, 4, inf)
    found: dict[float | None, list[float]] = {bound: [] for bound in bounds}
    for _ in range(repeats):
        for bound in bounds:
            settings = TrainingSettings(steps, BATCH, slow_rank=SLOW_RANK, slow_factor=SLOW_FACTOR)
            ranks = train(TrainingPlan(ParallelLayout(dp=2, staleness=bound), SHAPE, settings))
            found[bound].append(sum(steps / rank["seconds"] for rank in ranks))
    return [{"bound": bound if bound is None else str(bound), "steps_per_s": all_} for bound, all_ in found.items()]


def exchanges(train: Callable[[TrainingPlan], list[dict[str, Any]]], steps: int, repeats: int) -> list[dict[str, Any]]:
    """Each way of exchanging, no rank slow: bytes received by the busiest rank in a step, and a step's time."""
    from ringtree.training.strategies.asynchronous.asynchronous import busiest_nbytes

    rows: dict[str, list[list[dict[str, Any]]]] = {name: [] for name, _ in EXCHANGES}
    plans = {
        name: TrainingPlan(
            ParallelLayout(dp=RANKS, staleness=bound, server="sharded" if bound is None else name),
            SHAPE,
            TrainingSettings(steps, 8, 0.1, "sgd"),
        )
        for name, bound in EXCHANGES
    }
    for _ in range(repeats):
        for name, plan in plans.items():
            rows[name].append(train(plan))
    return [
        {
            "exchange": name,
            "formula_nbytes": busiest_nbytes(plans[name]),
            "busiest_received_nbytes": max(rank["received_nbytes"] for rank in runs[-1]),
            "all_received_nbytes": sum(rank["received_nbytes"] for rank in runs[-1]),
            "step_s": median(rank["seconds"] / steps for ranks in runs for rank in ranks),
        }
        for name, runs in rows.items()
    ]


def tables(found: dict[str, Any]) -> list[str]:
    """What was found, as a page has it."""
    machine, sent, rows = found["machine"], found["exchanges"], found["bounds"]
    lines = [
        f"{machine['cores']} cores of {machine['cpu']}, {found['date']}; P = "
        f"{found['parameters_nbytes']:,}. Through the busiest rank of {RANKS} in a step:",
        "",
        "| | received | formula, without words | a step, ms |",
        "| --- | ---: | ---: | ---: |",
    ]
    for row in sent:
        figures = f"{row['busiest_received_nbytes']:,.0f} | {row['formula_nbytes']:,.0f} | {1000 * row['step_s']:.1f}"
        lines.append(f"| {row['exchange']} | {figures} |")
    lines += [
        "",
        f"The loss after {found['steps'] + WARM_UP} steps of {BATCH // 2} rows on each of 2 ranks, one of which "
        f"computes {SLOW_FACTOR:.0f} times as long:",
        f"AdamW at its rate of {TrainingSettings().rate}, the mean of what both computed on in their last {LAST} "
        f"steps, over {len(rows[0]['loss'])} seeds;",
        "and the loss on text that nobody trained on, once all have ended:",
        "",
        "| K | loss | beside synchronous | at the end | beside synchronous | stalest read |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        beside = [f"{mean(row[k]):.3f} | {mean(row[k]) / mean(rows[0][k]) - 1:+.2%}" for k in ("loss", "end")]
        lines.append(f"| {row['bound'] or 'synchronous'} | {' | '.join(beside)} | {_stalest(row)} |")
    lines += ["", "How many reads were how stale:", ""]
    lines += [f"    K = {row['bound']:<4} {_histogram(row)}" for row in rows if row["staleness"]]
    rates = [(row["bound"], median(row["steps_per_s"])) for row in found["throughputs"]]
    speeds = ", ".join(
        f"{f'K = {bound}' if bound else 'synchronous'} {rate:.1f}" + f" ({rate / rates[0][1]:.2f} times)" * bool(bound)
        for bound, rate in rates
    )
    lines += ["", f"Steps of both ranks in a second, by turns in one run, the median of {found['repeats']}: {speeds}."]
    return lines


def _stalest(row: dict[str, Any]) -> str:
    return max(row["staleness"], key=int, default="")


def _histogram(row: dict[str, Any]) -> str:
    """The first few by themselves, the rest in ranges of ten."""
    bins: Counter[str] = Counter()
    for staleness, reads in row["staleness"].items():
        k = int(staleness)
        bins[staleness if k < 10 else f"{k // 10 * 10}-{k // 10 * 10 + 9}"] += reads
    return ", ".join(f"{which}: {reads}" for which, reads in bins.items())


def written(found: dict[str, Any]) -> None:
    """Puts the tables where the page has room for them."""
    marked = re.compile(r"(<!-- measured: staleness -->\n).*?(<!-- end -->)", re.DOTALL)
    block = "\n".join(["", *tables(found), "", ""])
    PAGE.write_text(marked.sub(lambda place: place[1] + block + place[2], PAGE.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=HERE / "asynchronous.json")
    args = parser.parse_args()
    from ringtree.training.core.sizes import parameters_nbytes

    found = {
        "machine": describe(), "date": f"{date.today():%d %B %Y}".lstrip("0"), "repeats": args.repeats, "ranks": RANKS,
        "parameters_nbytes": parameters_nbytes(TrainingPlan(ParallelLayout(dp=RANKS), SHAPE)),
        "steps": args.steps, "last": LAST,
        "slow_rank": SLOW_RANK, "slow_factor": SLOW_FACTOR,
    }  # fmt: skip
    with World(RANKS) as train:
        found["exchanges"] = exchanges(train, EXCHANGE_STEPS, args.repeats)
    with World(2) as train:
        found["bounds"] = losses(train, args.steps, args.repeats)
        found["throughputs"] = throughputs(train, args.repeats)
    replace_with_json(args.output, found)
    written(found)
    print(*tables(found), sep="\n")


if __name__ == "__main__":
    main()
