"""The layouts of as many ranks that options allow, each in several numbers of micro-batches."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence

from ringtree.ir import units
from ringtree.training import TrainingPlan
from ringtree.training.core.layout import AXES
from ringtree.training.core.micro_batches import divisors
from ringtree.training.predict.comparison import sizes

PlanOf = Callable[[argparse.Namespace], TrainingPlan]
MOST_NUMBERS = 48
"""Numbers of micro-batches in which a layout is tried; of more, so many that lie evenly among them."""


def allowed(args: argparse.Namespace, plan_of: PlanOf) -> Iterator[list[TrainingPlan]]:
    """Yields each layout of `args.compare` ranks as plans in several numbers of micro-batches, or in one, where the
    options name it or no step is estimated. `plan_of`: the plan of such options. ValueError, in one line, where there
    is none."""
    given = {axis: getattr(args, axis) for axis in AXES if getattr(args, axis) is not None}
    if bad := next((axis for axis, size in given.items() if size < 1), None):
        raise ValueError(f"{bad} is {given[bad]}; expected at least 1")
    tried, fitted, refusal = 0, 0, ""
    for along in sizes(args.compare, given):
        tried += 1
        one = argparse.Namespace(**vars(args) | along)
        try:
            plan = plan_of(one)
        except ValueError as error:  # a layout that the model or the batch does not allow
            refusal = refusal or str(error)
            continue
        fitted += 1
        more = args.tflops is not None and args.micro_batches is None
        yield [plan, *(_in_more(plan, one, plan_of) if more else ())]
    if not tried:
        words = " x ".join(f"{axis} {size}" for axis, size in given.items())
        raise ValueError(f"--compare {args.compare}: no multiple of {words}; expected one")
    if not fitted:
        raise ValueError(f"--compare {args.compare}: none of {units.count(tried, 'layout')} can be, as {refusal}")


def _in_more(plan: TrainingPlan, args: argparse.Namespace, plan_of: PlanOf) -> Iterator[TrainingPlan]:
    """The plan in more micro-batches: every number that divides a rank's rows, and that the schedule takes."""
    numbers = divisors(plan.settings.batch // plan.layout.pieces)
    for args.micro_batches in _evenly([n for n in numbers if n > plan.layout.micro_batches]):
        try:
            yield plan_of(args)
        except ValueError:
            continue


def _evenly(numbers: Sequence[int]) -> Sequence[int]:
    return numbers[:: -(-len(numbers) // MOST_NUMBERS)] if numbers else ()
