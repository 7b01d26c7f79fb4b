"""The layouts of as many ranks that options allow, each in several numbers of micro-batches."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ringtree.ir import units
from ringtree.training import TrainingPlan
from ringtree.training.core.layout import AXES
from ringtree.training.predict.comparison import sizes
from ringtree.training.strategies.layers.micro_batches import divisors

PlanOf = Callable[[argparse.Namespace], TrainingPlan]
NUMBER = re.compile(r"\d[\d,]*")
CANNOT = ("can be", "cannot be")
MOST_NUMBERS = 48
"""Numbers of micro-batches in which a layout is tried; of more, so many that lie evenly among them."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The layouts that cannot be for one reason, the same but for its numbers. `why`: with the numbers of one of them;
    `others`: whether there are others."""

    layouts: int
    why: str
    others: bool

    @property
    def words(self) -> str:
        """The number and the reason."""
        return f"{self.layouts} ({'such as: ' if self.others else ''}{self.why})"


@dataclass(frozen=True, slots=True)
class AllowedLayouts:
    """Each layout that can be as plans in several numbers of micro-batches, or in one, where the options name it or no
    step is estimated; and why others cannot be."""

    plans: Sequence[Sequence[TrainingPlan]]
    refused: Sequence[Refusal]

    def words(self) -> str:
        """The numbers of layouts that cannot be, by reason; "" where all can."""
        without = sum(refusal.layouts for refusal in self.refused)
        every = units.count(without + len(self.plans), "layout")
        reasons = "; ".join(refusal.words for refusal in self.refused)
        return (
            f"{without if self.plans else 'none'} of {every} {CANNOT[bool(self.plans)]}: {reasons}" if without else ""
        )


def allowed(args: argparse.Namespace, plan_of: PlanOf) -> AllowedLayouts:
    """The layouts of `args.compare` ranks. `plan_of`: the plan of such options. ValueError, in one line, where none can
    be, with the reason alone where it is the same for all."""
    given = {axis: getattr(args, axis) for axis in AXES if getattr(args, axis) is not None}
    if bad := next((axis for axis, size in given.items() if size < 1), None):
        raise ValueError(f"{bad} is {given[bad]}; expected at least 1")
    plans, reasons = list[list[TrainingPlan]](), list[str]()
    for along in sizes(args.compare, given):
        one = _with_meaning(argparse.Namespace(**vars(args) | along), given)
        try:
            plan = plan_of(one)
        except ValueError as error:  # a layout that the model or the batch does not allow
            reasons.append(str(error))
            continue
        more = args.tflops is not None and args.micro_batches is None
        plans.append([plan, *(_in_more(plan, one, plan_of) if more else ())])
    if not plans and not reasons:
        words = " x ".join(f"{axis} {size}" for axis, size in given.items())
        raise ValueError(f"--compare {args.compare}: no multiple of {words}; expected one")
    found = AllowedLayouts(plans, _by_reason(reasons))
    if not plans:
        raise ValueError(reasons[0] if len(set(reasons)) == 1 else f"--compare {args.compare}: {found.words()}")
    return found


def _with_meaning(args: argparse.Namespace, given: Container[str]) -> argparse.Namespace:
    """The options without those that have no meaning in this layout, of ranks that the options do not name."""
    if args.tp == 1 and "tp" not in given:
        args.sp = None
    if args.pp == 1 and "pp" not in given:
        args.schedule = None
    if args.dp * (args.cp or 1) * (args.ep or 1) == 1 and "dp" not in given:
        args.zero = None
    return args


def _by_reason(reasons: Iterable[str]) -> list[Refusal]:
    """The refusals, most layouts first, each with the reason of the smallest numbers: of what nearly can be."""
    found = dict[str, list[str]]()
    for why in reasons:
        found.setdefault(NUMBER.sub("0", why), []).append(why)
    least = (Refusal(len(its), min(its, key=_numbers), len(set(its)) > 1) for its in found.values())
    return sorted(least, key=lambda refusal: -refusal.layouts)


def _numbers(why: str) -> list[int]:
    return [int(number.replace(",", "")) for number in NUMBER.findall(why)]


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
