"""Training: its plan shown, its ranks started, or as one of them: `ringtree train`."""

from __future__ import annotations

import argparse
from importlib import import_module
from importlib.util import find_spec

from ringtree.cli import terminal
from ringtree.cli.arguments.destination import check_destinations, check_folder
from ringtree.cli.arguments.subject import given
from ringtree.cli.options.running.train import EXPERTS, GROUPS, NEEDS, OF_CLUSTERS
from ringtree.cli.train import elastic
from ringtree.cli.train import plan as train_plan
from ringtree.files.replacing import replace_with_json
from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from ringtree.training.strategies.layers.micro_batches import fewest_micro_batches
from ringtree.training.strategies.registry import check

WIDTH = 100
"""Columns of what goes into a pipe."""
MOST_RANKS, MOST_LAYERS = 1 << 17, 1 << 14
"""The most ranks and layers of a plan, which is worked out for each of them: within seconds."""
TIMES = "ringtree.cli.train.times"
"""The module that predicts times on a cluster, loaded where one is named."""
COMPARISON = "ringtree.cli.train.comparison"
"""The module that compares layouts there."""
OF_COMPARED = {"memory": "marks layouts that need more", "tflops": "estimates the steps of layouts"}
"""The options that only a comparison reads."""
RANKS = "ringtree.cli.train.ranks"
"""The module that has ranks, loaded where it is not the plan alone that is asked for."""


def run(args: argparse.Namespace) -> int:
    """Trains over all ranks, or prints the plan. Returns the exit code."""
    if args.compare is not None:
        return _compare(args)
    for name, why in OF_COMPARED.items():
        if getattr(args, name) is not None:
            raise ValueError(f"--{name} {why}: expected --compare as well")
    plan = plan_of(args)
    if args.plan:
        _check_plan_alone(args)
        times = import_module(TIMES).predicted(plan, args) if args.topology is not None else None
        if args.json:
            replace_with_json(args.json, train_plan.record(plan) | ({"predicted": times.record()} if times else {}))
        terminal.show([*train_plan.lines(plan, terminal.columns(WIDTH)), *(times.lines() if times else ())])
        return 0
    files = [path for path in (args.json, args.trace, args.html, args.picture) if path]
    check_destinations(args, *files)
    if args.checkpoint:
        check_folder(args.checkpoint, *files)
    _check_torch()
    code: int = import_module(RANKS).run(plan, args, words(args))
    return code


def _compare(args: argparse.Namespace) -> int:
    """Prints layouts beside one another. Returns 0."""
    if not args.plan or args.topology is None:
        raise ValueError("--compare predicts layouts on a cluster: expected --plan and --topology as well")
    _check_plan_alone(args)
    found = import_module(COMPARISON).predicted(args, plan_of)
    if args.json:
        replace_with_json(args.json, found.record())
    terminal.show(found.lines())
    return 0


def _check_plan_alone(args: argparse.Namespace) -> None:
    """ValueError of one line where an option asks for a file that a plan alone does not fill, or that cannot be
    written."""
    for name, why in train_plan.NOT_WITH.items():
        if getattr(args, name):
            raise ValueError(f"--plan does not go with --{name}: {why}")
    check_destinations(args, args.json)


def _check_torch() -> None:
    """ImportError with the command that installs it: looked for, not loaded, which takes seconds."""
    if find_spec("torch") is None:
        raise ImportError("training needs torch: pip install torch (--plan needs none)")


def plan_of(args: argparse.Namespace) -> TrainingPlan:
    """Returns the checked plan of the options. LayoutError or ValueError of one line for impossible ones."""
    for name, (others, why) in NEEDS.items():
        alone = all(getattr(args, o) in (None, elastic.NOTHING.get(o)) for o in others)
        if getattr(args, name) is not None and alone:
            raise ValueError(f"--{name} without --{' or --'.join(others)}: {why}".replace("_", "-"))
    of_cluster = given(args, OF_CLUSTERS)
    if of_cluster and args.topology is None:
        raise ValueError(f"{of_cluster[0]} describes a cluster: expected --topology NAME|FILE as well")
    if args.topology is not None and not args.plan:
        raise ValueError("--topology names a cluster, on which nothing is started: expected --plan as well")
    if args.dtype is not None and not args.plan:
        raise ValueError(f"--dtype {args.dtype} is of a plan: expected --plan as well, ranks train in float32")
    for name in ("every", "keep"):
        if (number := getattr(args, name)) is not None and number < 1:
            raise ValueError(f"--{name} {number}: expected at least 1")
    groups = [{o.sets: value for o in options if (value := o.given(args)) is not None} for _, options in GROUPS]
    if (args.pp or 1) > 1 and args.schedule != "naive":
        groups[0].setdefault("micro_batches", _fewest_micro_batches(args))
    if (args.ep or 1) > 1:
        groups[2].setdefault("experts", EXPERTS)
    parts = ParallelLayout(**groups[0]), Shape(**groups[2]), TrainingSettings(**groups[1])  # type: ignore[arg-type]
    plan = TrainingPlan(*parts, args.dtype or "float32")
    for number, most, what in ((plan.layout.ranks, MOST_RANKS, "ranks"), (plan.shape.layers, MOST_LAYERS, "layers")):
        if number > most:
            raise ValueError(f"a plan of {number:,} {what}; expected at most {most:,}")
    if args.elastic:
        elastic.check(plan, args)
    else:
        check(plan)
    if args.picture and plan.layout.staleness is not None:
        raise ValueError("--picture: ranks of asynchronous training have no common order of calls; use --trace instead")
    return plan


def _fewest_micro_batches(args: argparse.Namespace) -> int:
    """The number of micro-batches of a pipeline for which the options name none."""
    batch = TrainingSettings().batch if args.batch is None else args.batch
    pieces = (1 if args.dp is None else args.dp) * (1 if args.ep is None else args.ep)
    if pieces < 1 or batch < pieces or batch % pieces:
        return int(args.pp)  # the checks of the whole plan have the reason
    return fewest_micro_batches(batch // pieces, args.pp, args.schedule or ParallelLayout().schedule)


def words(args: argparse.Namespace) -> list[str]:
    """The options again, for the ranks that this command starts."""
    given = {k: v for k, v in vars(args).items() if k not in ("command", "work") and v is not None and v is not False}
    return [f"--{k.replace('_', '-')}" + ("" if v is True else f"={v}") for k, v in given.items()]
