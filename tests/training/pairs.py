"""Every two options of `ringtree train` at once: the plan that asks for both, and why it is refused where it is."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import combinations
from typing import Any

from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from ringtree.training.core.layout import LayoutError
from ringtree.training.strategies.registry import check

OPTIONS: dict[str, dict[str, Any]] = {
    "dp": {"dp": 2},
    "zero 1": {"dp": 2, "zero": 1},
    "zero 2": {"dp": 2, "zero": 2},
    "zero 3": {"dp": 2, "zero": 3},
    "tp": {"tp": 2},
    "sp": {"tp": 2, "sp": True},
    "cp ring": {"cp": 2, "context": "ring"},
    "cp ulysses": {"cp": 2, "context": "ulysses"},
    "experts": {"experts": 4},
    "ep": {"ep": 2, "experts": 4},
    "pp naive": {"pp": 2, "schedule": "naive"},
    "pp gpipe": {"pp": 2, "schedule": "gpipe", "micro_batches": 2},
    "pp 1f1b": {"pp": 2, "schedule": "1f1b", "micro_batches": 2},
    "pp interleaved": {"pp": 2, "schedule": "interleaved", "micro_batches": 2},
    "async central": {"dp": 2, "staleness": 0, "server": "central"},
    "async sharded": {"dp": 2, "staleness": 0, "server": "sharded"},
    "async peers": {"dp": 2, "staleness": 0, "server": "peers"},
    "micro-batches": {"micro_batches": 2},
    "recompute": {"recompute": True},
    "head-width": {"head_width": 6},
    "kv-heads": {"kv_heads": 2},
    "gated": {"gated": True, "ffn_width": 20},
    "tied": {"tied": True},
    "sgd": {"optimizer": "sgd"},
}
"""The least that makes use of each, adamw being the rule. Staleness 0 gives the result of synchronous training."""

SHAPE = Shape(width=16, layers=4, heads=4, context=16)
"""A shape that all of them divide evenly: no pair is refused for its sizes."""
SETTINGS = TrainingSettings(steps=3, batch=8, rate=1e-2)


def plan(*names: str) -> TrainingPlan | None:
    """The layout with all these options; None where two exclude each other, as two schedules do."""
    asked: dict[str, Any] = {}
    for name in names:
        for option, value in OPTIONS[name].items():
            if asked.setdefault(option, value) != value:
                return None
    layout, shape, settings = (_of(kind, asked) for kind in (ParallelLayout, Shape, TrainingSettings))
    return TrainingPlan(ParallelLayout(**layout), replace(SHAPE, **shape), replace(SETTINGS, **settings))


def _of(kind: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Taken out: a shape has a context, too."""
    return {field.name: asked.pop(field.name) for field in fields(kind) if field.name in asked}


def refusal(plan: TrainingPlan) -> str | None:
    """The reason, where a plan is refused."""
    try:
        check(plan)
    except LayoutError as reason:
        return str(reason)
    return None


PAIRS = {pair: both for pair in combinations(OPTIONS, 2) if (both := plan(*pair)) is not None}
"""By the two names, in OPTIONS' order."""


def matrix() -> str:
    """Markdown: option by option, what trains and what is refused, and below why."""
    reasons: dict[str, int] = {}
    lines = ["| | " + " | ".join(OPTIONS) + " |", "| --- |" + " :-: |" * len(OPTIONS)]
    for a in OPTIONS:
        cells = []
        for b in OPTIONS:
            both = PAIRS.get((a, b)) or PAIRS.get((b, a))
            reason = refusal(both) if both is not None else None
            number = reasons.setdefault(reason, len(reasons) + 1) if reason is not None else None
            cells.append("" if both is None else "yes" if number is None else str(number))
        lines.append(f"| {a} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *(f"{number}. {reason}" for reason, number in reasons.items()), ""])
