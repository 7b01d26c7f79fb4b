"""The result of a run of training, as text: loss, rate, where a step's time went, its bytes beside the formula."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite

from ringtree.cli.table import aligned
from ringtree.draw.text.lines import Line, TextSpan
from ringtree.draw.text.pipeline import has_pipeline, pipeline
from ringtree.draw.text.plot import plot
from ringtree.ir import units
from ringtree.training.measure.measured import TrainingRecord
from ringtree.training.strategies.layers.pipeline_order import bubble

FEWEST = 5
"""Fewest steps for a curve."""
PLOT_WIDTH, PLOT_HEIGHT = 60, 10


def lines(measured: TrainingRecord) -> list[Line]:
    """Returns the report of a training run: loss, memory, times and bytes."""
    text = [
        "",
        *_rate(measured),
        *_memory(measured),
        *_staleness(measured),
        "",
        *_time(measured),
        "",
        *_bytes(measured),
        *_links(measured),
        *_experts(measured),
        *_pipeline(measured),
    ]
    return [*_curve(measured), *((TextSpan(line),) for line in text)]


def _curve(measured: TrainingRecord) -> list[Line]:
    """The loss over the steps, where there are some and all are finite."""
    if len(measured.losses) < FEWEST or not all(map(isfinite, measured.losses)):
        return []
    curve = list(enumerate(measured.losses, measured.first))
    drawn = plot({"loss": curve}, lambda x: f"step {x:.0f}", lambda y: f"{y:.2f}", PLOT_WIDTH, PLOT_HEIGHT, True)
    return [(), *drawn] if drawn else []


def of_losses(losses: Sequence[float], whole_s: float, first: int) -> Iterator[str]:
    """The losses of the steps from the number `first` on, which took `whole_s`; and where they are no numbers."""
    steps = f"{units.count(len(losses), 'step')} in {units.duration(whole_s)}"
    yield f"{steps}: loss {losses[0]:.4f} at the first, {losses[-1]:.4f} at the last"
    lost = next((step for step, loss in enumerate(losses, first) if not isfinite(loss)), None)
    if lost is not None:
        yield (
            f"the loss is no finite number from step {lost} on, nor are the weights of checkpoints since: expected a "
            "lower --rate, from an earlier checkpoint"
        )


def _rate(measured: TrainingRecord) -> Iterator[str]:
    yield from of_losses(measured.losses, sum(measured.step_s), measured.first)
    yield (
        f"{measured.tokens_per_s:,.0f} tokens per second: {measured.tokens:,} (bytes of text) a step, of "
        f"{units.duration(measured.median_s)} in the median"
    )


def _memory(measured: TrainingRecord) -> Iterator[str]:
    """The memory of the rank that holds the most."""
    held = measured.held
    most = max(held, key=lambda its: its.in_all)
    who = "every rank holds" if len(set(held)) == 1 else f"rank {held.index(most)} holds the most:"
    parts = [
        ("parameters", most.parameters),
        ("gradients", most.gradients),
        ("optimizer's state", most.optimizer_state),
    ]
    yield f"between steps {who} {units.size(most.in_all)}: {', '.join(f'{what} {units.size(n)}' for what, n in parts)}"


def _staleness(measured: TrainingRecord) -> Iterator[str]:
    if measured.staleness:
        reads = ", ".join(f"{k}: {reads:,}" for k, reads in sorted(measured.staleness.items()))
        most = measured.plan.layout.staleness
        yield f"staleness of reads, in steps behind the slowest worker ({most} at most): {reads}"


def _time(measured: TrainingRecord) -> Iterator[str]:
    step_s, found = measured.traced_s, measured.shares
    table = [(f"time of a rank in the last step ({units.duration(step_s)}):", "at work", "waiting")]
    table += [
        (f"  in {s.collective} over {s.axis}", _percent(s.work_s, step_s), _percent(s.wait_s, step_s)) for s in found
    ]
    rest_s = max(0.0, step_s - sum(s.work_s + s.wait_s for s in found))
    table.append(("  computing, and other time", _percent(rest_s, step_s), ""))
    yield from aligned(table, 1)


def _pipeline(measured: TrainingRecord) -> Iterator[str]:
    """The last step's passes, and the bubble beside the formula, where there is a pipeline."""
    if has_pipeline(measured.trace):
        yield ""
        yield from pipeline(measured.trace).splitlines()
        yield f"bubble by the formula for equal stages: {bubble(measured.plan.layout):.1%}"


def _percent(part_s: float, whole_s: float) -> str:
    return f"{100 * part_s / whole_s:.1f} %" if whole_s else "-"


def _bytes(measured: TrainingRecord) -> Iterator[str]:
    if not measured.sent and not measured.counted_nbytes:
        yield "no bytes were sent"
        return
    table = [("bytes sent, in all", "by", "over", "formula", "counted", "")]
    for sent in measured.sent:
        what, over = _what(sent.whats), f"{sent.axis} of {sent.ranks}"
        by = sent.collective + f" ({', '.join(sent.algorithms)})" * bool(sent.algorithms)
        table.append((f"  {what}", by, over, *_beside(sent.formula_nbytes, sent.counted_nbytes)))
    counters = _beside(measured.formula_nbytes, measured.counted_nbytes)
    table.append(("  by the engine's counters", "", "", *counters))
    yield from aligned(table, 3)
    yield from (f"{sent.collective} over {sent.axis}: {sent.why}" for sent in measured.sent if sent.why)


def _links(measured: TrainingRecord) -> Iterator[str]:
    """Bytes over the links between hosts, beside the fewest that each host as one rank would send."""
    if not (rows := measured.between_hosts):
        return
    yield ""
    table = [("bytes that left hosts", "over", "formula", "counted", "", "busiest link")]
    for row in rows:
        formula = "-" if row.formula_nbytes is None else f"{row.formula_nbytes:,}"
        beside = (formula, f"{row.counted_nbytes:,}", "")
        if row.formula_nbytes is not None:
            beside = _beside(row.formula_nbytes, row.counted_nbytes)
        table.append((f"  {row.collective}", row.axis, *beside, f"{row.busiest_nbytes:,}"))
    yield from aligned(table, 2)


def _what(whats: tuple[str, ...]) -> str:
    return f"{whats[0]}, and {len(whats) - 1} more" if len(whats) > 2 else " and ".join(whats) or "not foretold"


def _beside(formula: int, counted: int | None) -> tuple[str, str, str]:
    """Both, and whether they are the same."""
    if counted is None:
        return f"{formula:,}", "-", ""
    if counted == formula:
        return f"{formula:,}", f"{counted:,}", "equal"
    return f"{formula:,}", f"{counted:,}", f"{100 * (counted - formula) / formula:+.1f} %" if formula else "more"


def _experts(measured: TrainingRecord) -> Iterator[str]:
    """The load of the experts in the last step, over all layers and ranks."""
    load = measured.load
    if load is None:
        return
    yield ""
    shares = "  ".join(_percent(float(count), float(load.chosen.sum())) for count in load.chosen)
    yield f"the last step's tokens went to expert 0, 1 …: {shares}"
    yield (
        f"{100 * load.dropped:.1f} % of their choices were dropped, over capacity; balancing loss "
        f"{load.mean_imbalance:.3f} (1: even load)"
    )
