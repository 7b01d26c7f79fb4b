"""A plan of training as text and as JSON: the mesh of ranks, communication groups, and what a step sends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ringtree.cli.table import aligned
from ringtree.draw.text.lines import Line, TextSpan
from ringtree.draw.text.mesh import groups, mesh
from ringtree.ir import units
from ringtree.training import TrainingPlan
from ringtree.training.core.flops import model_flops
from ringtree.training.core.layout import AXES
from ringtree.training.core.placement import layers, most_parameters
from ringtree.training.core.plan import VOCABULARY
from ringtree.training.core.sizes import parameters
from ringtree.training.strategies import registry
from ringtree.training.strategies.registry import STRATEGIES, named_groups, traffic
from ringtree.training.strategies.strategy import Traffic

UNMEASURED = "it starts no rank, whose last step the file would show"
NOT_WITH = {
    "html": UNMEASURED,
    "trace": UNMEASURED,
    "picture": UNMEASURED,
    "checkpoint": "it takes no step, after which one would be written",
}
"""Options that ask for what only a training writes, and why a plan does not."""


def lines(plan: TrainingPlan, width: int) -> list[Line]:
    """The whole plan as lines, within `width` columns."""
    axes = {axis: getattr(plan.layout, axis) for axis in AXES}
    before, after = [*_head(plan), ""], ["", *_groups(plan, width), *_held(plan), "", *_sent(plan)]
    return [*((TextSpan(line),) for line in before), *mesh(axes, width), *((TextSpan(line),) for line in after)]


def record(plan: TrainingPlan) -> dict[str, Any]:
    """The whole plan as JSON: the part of a training's record that is known before it, the operations of a step's
    matrix products, and what a step sends."""
    known = {"dtype": plan.dtype, "model_flops": model_flops(plan)}
    return {**registry.record(plan), **known, "traffic": registry.traffic_record(plan)}


def model_words(plan: TrainingPlan) -> str:
    """The model's parameters and its shape, what differs from the default only where it does."""
    shape = plan.shape
    of_own = "" if shape.query_width == shape.width else f" of width {shape.each_head_width}"
    words = [units.count(shape.layers, "layer"), f"width {shape.width}", units.count(shape.heads, "head") + of_own]
    if shape.key_value_heads < shape.heads:
        words.append(f"{units.count(shape.key_value_heads, 'key-value head')}")
    if shape.gated or shape.feed_forward_width != 4 * shape.width:
        words.append(f"{'gated ' if shape.gated else ''}feed-forward {shape.feed_forward_width}")
    if shape.vocabulary != VOCABULARY:
        words.append(f"vocabulary {shape.vocabulary}")
    if shape.tied:
        words.append("tied embeddings")
    return f"model of {parameters(plan):,} parameters: {', '.join(words)}"


def _head(plan: TrainingPlan) -> Iterator[str]:
    layout, shape, settings = plan.layout, plan.shape, plan.settings
    along = [f"{axis} {size}" for axis in AXES if (size := getattr(layout, axis)) > 1]
    yield f"{units.count(layout.ranks, 'rank')}{': ' if along else ''}{' x '.join(along)}"
    used = [strategy.name for strategy in STRATEGIES if strategy.used(plan)]
    yield f"divided by {', '.join(used)}" if used else "not divided"
    yield f"{model_words(plan)}{f', {plan.dtype}' if plan.dtype != 'float32' else ''}"
    yield f"a step reads {units.count(settings.batch, 'sequence')} of {shape.context} bytes{_rows(plan)}"
    if layout.recompute:
        yield "recompute: each block keeps its input alone, and is computed again in the backward pass"


def _rows(plan: TrainingPlan) -> str:
    """The number of a step's sequences that a rank reads, and of the micro-batches they come in."""
    rows = f", each rank {plan.settings.batch // plan.layout.pieces}" if plan.layout.pieces > 1 else ""
    count = plan.layout.micro_batches
    return rows if count == 1 else f"{rows}, in {count} micro-batches"


def _groups(plan: TrainingPlan, width: int) -> Iterator[str]:
    found = named_groups(plan)
    if not found:
        return
    rows = [(f"  {', '.join(names)}", str(len(members[0]))) for names, members in found]
    head, *begun = aligned([("groups", "ranks"), *rows], 1)
    yield f"{head}  communication groups"
    for text, (_, members) in zip(begun, found, strict=True):
        yield f"{text}  {groups(members, width - len(text) - 2)}"
    yield ""


def _held(plan: TrainingPlan) -> Iterator[str]:
    """The layers and the number of parameters of each rank, in lines."""
    if plan.layout.pp == 1:
        yield f"each rank has {most_parameters(plan, 0):,} parameters"
        return
    for stage in range(plan.layout.pp):
        parts = ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in layers(plan, stage))
        ends = ", embedding" * (stage == 0) + ", scores" * (stage == plan.layout.pp - 1)
        word = "layer" if parts.isdecimal() else "layers"
        yield f"each rank at pp {stage} has {most_parameters(plan, stage):,} parameters: {word} {parts}{ends}"


def _sent(plan: TrainingPlan) -> Iterator[str]:
    rows = [t for t in traffic(plan) if t.wire_nbytes]
    if not rows:
        yield "a step sends nothing"
        return
    table = [("a step sends", "by", "over", "in all", "a rank")]
    table += [(f"  {t.what}", t.collective, f"{t.axis} of {t.ranks}", *_sizes([t], plan)) for t in rows]
    table += [("", "", "", *_sizes(rows, plan))] if len(rows) > 1 else []
    yield from aligned(table, 3)


def _sizes(rows: Sequence[Traffic], plan: TrainingPlan) -> tuple[str, str]:
    """On the wire in all, and what a rank receives on the average."""
    nbytes, bound = sum(t.wire_nbytes for t in rows), "≤ " * any(t.at_most for t in rows)
    return bound + units.size(nbytes), bound + units.size(nbytes / plan.layout.ranks)
