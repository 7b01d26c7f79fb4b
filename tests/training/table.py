"""The layouts that are tested, by name: one table for weights, losses and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations_with_replacement
from typing import Any

from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from ringtree.training.core.layout import AXES, CONTEXTS

SMALL = Shape(width=16, layers=2, heads=4, context=8)

LARGE_VOCABULARY = Shape(
    width=3584,
    layers=42,
    heads=16,
    head_width=256,
    kv_heads=8,
    ffn_width=14336,
    gated=True,
    vocabulary=256128,
    context=8192,
)
"""The shape of a model whose scores are a large part of it: a pipeline's last stage computes and holds the most."""

LONG: dict[str, Any] = {"shape": {"context": 32, "heads": 8}}
"""A shape with positions and heads enough to be divided."""
DEEP: dict[str, Any] = {"shape": {"layers": 8}}
"""A shape with layers enough."""
BY_SGD = {"optimizer": "sgd", "rate": 0.3}
"""An expert that few tokens come to has next to no gradients, of whose rounding AdamW makes steps of the rate;
so do many layers."""
EXPERTS: dict[str, Any] = {"shape": {"experts": 8}, "settings": BY_SGD}
OWN_SHAPE: dict[str, Any] = {"head_width": 6, "kv_heads": 2, "ffn_width": 20, "gated": True, "vocabulary": 272}
OWN: dict[str, Any] = {"shape": OWN_SHAPE}
"""A shape with fewer heads of keys and values, and gated dense layers of a width of their own."""
LONG_OWN: dict[str, Any] = {"shape": LONG["shape"] | OWN_SHAPE}
TIED: dict[str, Any] = {"shape": {"tied": True, "ffn_width": 20}}

LAYOUTS: dict[str, tuple[ParallelLayout, dict[str, Any]]] = {
    "dp2": (ParallelLayout(dp=2), {}),
    "dp4": (ParallelLayout(dp=4), {}),
    "dp8": (ParallelLayout(dp=8), {}),
    "dp2 micro-batches": (ParallelLayout(dp=2, micro_batches=4), {}),
    "tp2": (ParallelLayout(tp=2), {}),
    "tp4": (ParallelLayout(tp=4), {}),
    "tp8": (ParallelLayout(tp=8), {"shape": {"heads": 8}}),
    **{f"zero{z} dp{n}": (ParallelLayout(dp=n, zero=z), {}) for z in (1, 2, 3) for n in (2, 4, 8)},
    **{f"zero{z} micro-batches": (ParallelLayout(dp=2, zero=z, micro_batches=4), {}) for z in (1, 2, 3)},
    **{f"zero{z} uneven": (ParallelLayout(dp=4, zero=z), {"shape": {"width": 12, "context": 10}}) for z in (1, 2, 3)},
    **{f"cp{n} {kind}": (ParallelLayout(cp=n, context=kind), LONG) for kind in CONTEXTS for n in (2, 4, 8)},
    "dp2 cp2 ring micro-batches": (ParallelLayout(dp=2, cp=2, micro_batches=2), LONG),
    "dp2 cp4 ring": (ParallelLayout(dp=2, cp=4), LONG),
    "dp4 cp2 ulysses": (ParallelLayout(dp=4, cp=2, context="ulysses"), LONG),
    **{f"cp2 tp2 {kind}": (ParallelLayout(cp=2, tp=2, context=kind), LONG) for kind in CONTEXTS},
    **{f"cp2 sp2 {kind}": (ParallelLayout(cp=2, tp=2, sp=True, context=kind), LONG) for kind in CONTEXTS},
    **{f"pp2 cp2 {kind}": (ParallelLayout(pp=2, cp=2, context=kind, micro_batches=2), LONG) for kind in CONTEXTS},
    "dp2 cp2 tp2 ring": (ParallelLayout(dp=2, cp=2, tp=2), LONG),
    **{f"zero{z} cp2 ring": (ParallelLayout(cp=2, zero=z), LONG) for z in (1, 2, 3)},
    "zero3 dp2 cp2 ulysses": (ParallelLayout(dp=2, cp=2, context="ulysses", zero=3), LONG),
    "sp2": (ParallelLayout(tp=2, sp=True), {}),
    "sp4": (ParallelLayout(tp=4, sp=True), {}),
    "sp8": (ParallelLayout(tp=8, sp=True), {"shape": {"heads": 8}}),
    "tp2 micro-batches": (ParallelLayout(tp=2, micro_batches=2), {}),
    "sp2 micro-batches": (ParallelLayout(tp=2, sp=True, micro_batches=2), {}),
    "dp2 tp2": (ParallelLayout(dp=2, tp=2), {}),
    "dp2 sp2 micro-batches": (ParallelLayout(dp=2, tp=2, sp=True, micro_batches=2), {}),
    "dp2 tp4": (ParallelLayout(dp=2, tp=4), {}),
    "dp4 tp2": (ParallelLayout(dp=4, tp=2), {}),
    **{f"zero{z} dp2 tp2": (ParallelLayout(dp=2, tp=2, zero=z), {}) for z in (1, 2, 3)},
    "zero1 dp2 sp2 own shape": (ParallelLayout(dp=2, tp=2, sp=True, zero=1), OWN),
    "zero1 dp2 tp2 pp2": (ParallelLayout(dp=2, tp=2, pp=2, zero=1, micro_batches=2), {}),
    **{
        f"zero{z} dp2 sp2 micro-batches": (ParallelLayout(dp=2, tp=2, sp=True, zero=z, micro_batches=2), {})
        for z in (1, 2, 3)
    },
    "zero3 dp4 sp2 uneven": (
        ParallelLayout(dp=4, tp=2, sp=True, zero=3),
        {"shape": {"width": 12, "context": 10, "heads": 2}},
    ),
    "tp2 pp2": (ParallelLayout(tp=2, pp=2, micro_batches=2), {}),
    "sp2 pp2 gpipe": (ParallelLayout(tp=2, sp=True, pp=2, schedule="gpipe", micro_batches=4), {}),
    "sp2 pp2 interleaved": (ParallelLayout(tp=2, sp=True, pp=2, schedule="interleaved", micro_batches=2), DEEP),
    "dp2 tp2 pp2": (ParallelLayout(dp=2, tp=2, pp=2, micro_batches=2), {}),
    "dp2 sp2 pp2 interleaved": (
        ParallelLayout(dp=2, tp=2, sp=True, pp=2, schedule="interleaved", micro_batches=2),
        DEEP,
    ),
    "zero2 dp2 sp2 pp2": (ParallelLayout(dp=2, tp=2, sp=True, pp=2, zero=2, micro_batches=2), {}),
    "zero3 dp2 tp2 pp2": (ParallelLayout(dp=2, tp=2, pp=2, zero=3, micro_batches=2), {}),
    "pp2 naive": (ParallelLayout(pp=2, schedule="naive"), {}),
    "pp4 naive": (ParallelLayout(pp=4, schedule="naive"), DEEP),
    "pp8 naive": (ParallelLayout(pp=8, schedule="naive"), DEEP),
    "dp2 pp2 naive": (ParallelLayout(dp=2, pp=2, schedule="naive"), {}),
    **{f"zero{z} dp2 pp2": (ParallelLayout(dp=2, pp=2, zero=z, micro_batches=4), {}) for z in (1, 2, 3)},
    "zero3 dp2 pp2 interleaved": (ParallelLayout(dp=2, pp=2, zero=3, schedule="interleaved", micro_batches=2), DEEP),
    "zero3 dp2 cp2": (ParallelLayout(dp=2, cp=2, zero=3), LONG),
    "pp2 gpipe": (ParallelLayout(pp=2, schedule="gpipe", micro_batches=4), {}),
    "pp2 1f1b": (ParallelLayout(pp=2, schedule="1f1b", micro_batches=4), {}),
    "pp2 interleaved": (ParallelLayout(pp=2, schedule="interleaved", micro_batches=4), DEEP),
    "pp4 gpipe": (ParallelLayout(pp=4, schedule="gpipe", micro_batches=2), DEEP),
    "pp4 1f1b": (ParallelLayout(pp=4, schedule="1f1b", micro_batches=4), DEEP),
    "pp4 interleaved": (ParallelLayout(pp=4, schedule="interleaved", micro_batches=8), DEEP),
    "pp8 gpipe": (ParallelLayout(pp=8, schedule="gpipe", micro_batches=8), DEEP),
    "pp8 1f1b": (ParallelLayout(pp=8, schedule="1f1b", micro_batches=8), DEEP),
    "pp8 interleaved": (
        ParallelLayout(pp=8, schedule="interleaved", micro_batches=8),
        {"shape": {"layers": 16}, "settings": BY_SGD},
    ),
    "dp2 pp2 gpipe": (ParallelLayout(dp=2, pp=2, schedule="gpipe", micro_batches=2), {}),
    "dp2 pp2 1f1b": (ParallelLayout(dp=2, pp=2, schedule="1f1b", micro_batches=4), {}),
    "dp2 pp2 interleaved": (ParallelLayout(dp=2, pp=2, schedule="interleaved", micro_batches=2), DEEP),
    "dp2 of experts": (ParallelLayout(dp=2), EXPERTS),
    "ep2": (ParallelLayout(ep=2), EXPERTS),
    "ep2 micro-batches": (ParallelLayout(ep=2, micro_batches=2), EXPERTS),
    "ep4": (ParallelLayout(ep=4), EXPERTS),
    "ep8": (ParallelLayout(ep=8), EXPERTS),
    "dp2 ep2": (ParallelLayout(dp=2, ep=2), EXPERTS),
    "dp2 ep4": (ParallelLayout(dp=2, ep=4), EXPERTS),
    "dp4 ep2": (ParallelLayout(dp=4, ep=2), EXPERTS),
    **{f"zero{z} dp2 of experts": (ParallelLayout(dp=2, zero=z), EXPERTS) for z in (1, 3)},
    **{f"zero{z} ep4": (ParallelLayout(ep=4, zero=z), EXPERTS) for z in (2, 3)},
    **{f"zero{z} dp2 ep2": (ParallelLayout(dp=2, ep=2, zero=z), EXPERTS) for z in (2, 3)},
    **{
        f"zero{z} dp2 ep2 micro-batches": (ParallelLayout(dp=2, ep=2, zero=z, micro_batches=2), EXPERTS) for z in (2, 3)
    },
    **{f"zero{z} dp2 ep4": (ParallelLayout(dp=2, ep=4, zero=z), EXPERTS) for z in (2, 3)},
    "zero3 dp4 ep2 uneven": (ParallelLayout(dp=4, ep=2, zero=3), {"shape": {"experts": 6}, "settings": BY_SGD}),
    "zero3 dp4 of few experts": (ParallelLayout(dp=4, zero=3), {"shape": {"experts": 2}, "settings": BY_SGD}),
    "zero2 dp2 ep2 of few experts": (
        ParallelLayout(dp=2, ep=2, zero=2, micro_batches=2),
        {"shape": {"experts": 2}, "settings": BY_SGD},
    ),
    "zero3 dp3 of experts that leave a rest": (
        ParallelLayout(dp=3, zero=3),
        {"shape": {"experts": 4, "ffn_width": 21, "top_k": 4}, "settings": BY_SGD | {"batch": 9}},
    ),
    **{
        f"{server} staleness 0 dp{n}": (ParallelLayout(dp=n, staleness=0, server=server), {})
        for server in ("central", "sharded", "peers")
        for n in (2, 4, 8)
    },
    "sharded staleness 0 sgd": (ParallelLayout(dp=3, staleness=0), {"settings": {"optimizer": "sgd", "batch": 9}}),
    "peers staleness 0 micro-batches": (ParallelLayout(dp=2, staleness=0, server="peers", micro_batches=4), {}),
    "tp2 own shape": (ParallelLayout(tp=2), OWN),
    "zero3 dp2 sp2 own shape": (ParallelLayout(dp=2, tp=2, sp=True, zero=3), OWN),
    "pp2 naive own shape": (ParallelLayout(pp=2, schedule="naive"), OWN),
    "pp2 interleaved own shape": (
        ParallelLayout(pp=2, schedule="interleaved", micro_batches=2),
        {"shape": DEEP["shape"] | OWN_SHAPE},
    ),
    **{f"cp2 {kind} own shape": (ParallelLayout(cp=2, context=kind), LONG_OWN) for kind in CONTEXTS},
    "dp2 cp2 tp2 ring own shape": (ParallelLayout(dp=2, cp=2, tp=2), LONG_OWN),
    "zero3 dp2 ep2 own shape": (
        ParallelLayout(dp=2, ep=2, zero=3),
        {"shape": EXPERTS["shape"] | OWN_SHAPE, "settings": BY_SGD},
    ),
    "dp2 recompute": (ParallelLayout(dp=2, recompute=True, micro_batches=2), {}),
    "tp2 recompute": (ParallelLayout(tp=2, recompute=True), {}),
    "sp2 recompute own shape": (ParallelLayout(tp=2, sp=True, recompute=True), OWN),
    **{f"cp2 {kind} recompute": (ParallelLayout(cp=2, context=kind, recompute=True), LONG) for kind in CONTEXTS},
    "cp2 ulysses recompute own shape": (ParallelLayout(cp=2, context="ulysses", recompute=True), LONG_OWN),
    "ep2 recompute": (ParallelLayout(ep=2, recompute=True), EXPERTS),
    **{f"zero{z} dp2 recompute": (ParallelLayout(dp=2, zero=z, recompute=True), {}) for z in (2, 3)},
    "zero2 dp2 ep2 recompute": (ParallelLayout(dp=2, ep=2, zero=2, recompute=True), EXPERTS),
    "pp2 naive recompute": (ParallelLayout(pp=2, schedule="naive", recompute=True), {}),
    "pp2 gpipe recompute": (ParallelLayout(pp=2, schedule="gpipe", micro_batches=4, recompute=True), {}),
    "pp2 interleaved recompute": (
        ParallelLayout(pp=2, schedule="interleaved", micro_batches=4, recompute=True),
        DEEP,
    ),
    "zero3 dp2 pp2 recompute": (ParallelLayout(dp=2, pp=2, zero=3, micro_batches=2, recompute=True), {}),
    "dp2 sp2 pp2 recompute": (ParallelLayout(dp=2, tp=2, sp=True, pp=2, micro_batches=2, recompute=True), {}),
    "sharded staleness 0 recompute": (ParallelLayout(dp=2, staleness=0, recompute=True), {}),
    **{f"zero{z} dp2 tied": (ParallelLayout(dp=2, zero=z), TIED) for z in (0, 1, 2, 3)},
    "sp2 tied": (ParallelLayout(tp=2, sp=True), TIED),
    "sharded staleness 0 tied": (ParallelLayout(dp=2, staleness=0), TIED),
}
"""Layouts, and what their plans have beside: `shape`, `settings`, as the keywords in which they differ."""


def communication(layout: ParallelLayout) -> tuple[object, ...]:
    """What distinguishes the communication of a layout from that of others, but for the numbers of ranks."""
    axes = [axis for axis in AXES if getattr(layout, axis) > 1]
    options = (layout.sp, layout.zero, layout.recompute, layout.staleness is not None and layout.server)
    return (*axes, *options, "pp" in axes and layout.schedule, "cp" in axes and layout.context)


def plan(name: str) -> TrainingPlan:
    layout, more = LAYOUTS[name]
    shape = {"width": SMALL.width, "layers": SMALL.layers, "heads": SMALL.heads, "context": SMALL.context}
    settings = {"steps": 3, "batch": 8, "rate": 1e-2}
    return TrainingPlan(
        layout, Shape(**shape | more.get("shape", {})), TrainingSettings(**settings | more.get("settings", {}))
    )


def features(name: str) -> list[str]:
    """What may go wrong with one another: axes with their sizes, strategies, divisions that leave a rest."""
    made = plan(name)
    layout, shape = made.layout, made.shape
    sizes = {axis: getattr(layout, axis) for axis in AXES}
    having = {
        **{f"{axis}{size}": size > 1 and not (layout.sp and axis == "tp") for axis, size in sizes.items()},
        f"sp{layout.tp}": layout.sp,
        f"zero{layout.zero}": layout.zero > 0,
        layout.schedule: layout.pp > 1,
        layout.context: layout.cp > 1,
        layout.server: layout.staleness is not None,
        "micro-batches": layout.micro_batches > 1,
        "experts": shape.experts > 0,
        "uneven": any(size & (size - 1) for size in (shape.width, shape.experts, made.settings.batch)),
    }
    return sorted(word for word, has in having.items() if has)


def covering(sets: Mapping[str, set[Any]]) -> list[str]:
    """Names of few sets that have every element of all: the next is always that of most elements not had yet."""
    left, chosen = set().union(*sets.values()), list[str]()
    while left:
        chosen.append(max(sets, key=lambda name: len(sets[name] & left)))
        left -= sets[chosen[-1]]
    return chosen


def _kinds(name: str) -> list[str]:
    """The features without their sizes."""
    return sorted(
        {feature.rstrip("0123456789") if feature[:2] in {*AXES, "sp"} else feature for feature in features(name)}
    )


_PAIRS = {name: {*features(name), *combinations_with_replacement(_kinds(name), 2)} for name in LAYOUTS}
QUICK = {
    *covering({name: _PAIRS[name] for name, (layout, _) in LAYOUTS.items() if layout.ranks <= 4}),
    "zero2 dp2 sp2 pp2",
    "cp2 ring own shape",
    "zero3 dp2 sp2 own shape",
    "zero3 dp2 ep2 own shape",
    "zero3 dp2 tied",
    "sp2 recompute own shape",
    "cp2 ring recompute",
    "cp2 ulysses recompute own shape",
    "zero2 dp2 ep2 recompute",
    "zero3 dp4 of few experts",
    "zero2 dp2 ep2 of few experts",
    "zero3 dp3 of experts that leave a rest",
    "zero3 dp2 pp2 recompute",
}
"""Layouts of the quick tests: every size of an axis and every two features that any of up to four ranks has, one of
three axes, some of other shapes, some whose blocks are computed again, and some that divide stacks of experts along
each of their dimensions."""
