"""A plan trained by its ranks, beside the result of one process and the plan's formula."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from ringtree.training import TrainingPlan

TOLERANCE = 1e-4
"""For losses and weights, absolute and relative."""
UNLIKE = 10 * TOLERANCE
PATIENCE_S = 180.0
"""With eight ranks on two cores, of which each has to load torch first."""

CallKey = tuple[str, tuple[int, ...], int]
"""A call's collective, its ranks (of a message the sender and the receiver), and the bytes of its vector."""
RankResult = tuple[list[float], dict[str, Any], list[int], list[dict[str, int]], Counter[CallKey]]
"""A rank's losses, the whole model's weights, for each step the bytes received and those its layers counted, and the
calls of the last step."""


def train(plan: TrainingPlan, silent: bool = False) -> RankResult:
    """On a rank."""
    from contextlib import nullcontext

    from ringtree.training import Trainer
    from ringtree.training.core.stages import named
    from ringtree.training.measure.calls import newest, since
    from ringtree.training.measure.wire import meet, received_nbytes
    from tests.training.silence import silence

    trainer = Trainer(plan)
    losses, received, counted, calls = [], [], [], Counter[CallKey]()
    for _ in range(plan.settings.steps):
        before, so_far = received_nbytes(), trainer.counted()
        last = newest()
        meet()  # no other's step begins before that was read
        with silence() if silent else nullcontext():
            loss = trainer.step()
        if not silent:
            trainer.drain()
            calls = Counter((c.name, c.ranks, c.nbytes) for c in since(last))
        received.append(received_nbytes() - before)
        counted.append({what: nbytes - so_far[what] for what, nbytes in trainer.counted().items()})
        losses.append(trainer.mean_loss(loss))
    undrained = silent and plan.layout.staleness is not None  # and what was not sent does not come
    weights = named(trainer.model) if undrained else trainer.weights()
    if not undrained:
        trainer.close()
    return losses, {name: value.detach().numpy() for name, value in weights.items()}, received, counted, calls


def apart(got: dict[str, Any], expected: dict[str, Any], left_out: dict[str, Any] | None = None) -> float:
    """How far the two are at most, in tolerances' units: |a - b| / (1 + |b|), but for the elements that are
    `left_out`."""
    import numpy as np

    assert got.keys() == expected.keys()
    far = {k: np.abs(got[k] - expected[k]) / (1 + np.abs(expected[k])) for k in expected}
    for k, leaves in (left_out or {}).items():
        far[k] = np.where(leaves, 0, far[k])
    return max(float(np.max(each)) for each in far.values())


def alone(plan: TrainingPlan) -> tuple[list[float], dict[str, Any], dict[str, Any]]:
    """As the reference's, in numpy's arrays."""
    from tests.training import reference

    losses, *tensors = reference.alone(plan)
    weights, rounded = ({name: value.numpy() for name, value in each.items()} for each in tensors)
    return losses, weights, rounded


def hold_to_one_process(plan: TrainingPlan, results: list[RankResult]) -> None:
    """A weight of which AdamW made a step from rounding may be as far as what is not unlike."""
    losses, weights, rounded = alone(plan)
    for its_losses, its_weights, *_ in results:
        assert its_losses == pytest.approx(losses, abs=TOLERANCE, rel=TOLERANCE)
        assert apart(its_weights, weights, rounded) < TOLERANCE
        assert apart(its_weights, weights) < UNLIKE


def hold_to_the_formula(plan: TrainingPlan, results: list[RankResult]) -> None:
    from ringtree.training.strategies.registry import traffic
    from ringtree.training.strategies.strategy import known

    bounds = traffic(plan)
    received = [its[-1] for _, _, its, *_ in results]
    counted = {t.what: sum(its[-1][t.what] for *_, its, _ in results) for t in bounds if t.at_most}
    assert all(0 < counted[t.what] <= t.nbytes for t in bounds if t.at_most)
    assert sum(received) == sum(t.wire_nbytes for t in known(bounds, counted))


def hold_to_the_calls(plan: TrainingPlan, results: list[RankResult]) -> None:
    """Each rank's calls of the last step; of uneven all_to_alls, whose bytes the data decides, their number."""
    for rank, (*_, calls) in enumerate(results):
        found, expected = Counter[CallKey](), Counter[CallKey]()
        for (name, ranks, nbytes), times in calls.items():
            found[name, ranks, 0 if name == "all_to_all" and plan.layout.ep > 1 else nbytes] += times
        for key, times in planned(plan, rank):
            expected[key] += times
        assert found == expected, f"rank {rank}: beyond the plan {found - expected}, missing {expected - found}"


def planned(plan: TrainingPlan, rank: int) -> Iterator[tuple[CallKey, int]]:
    """The calls that a plan foretells for a rank, and the number of each."""
    from ringtree.training.strategies.registry import calls

    layout = plan.layout
    for call in calls(plan, layout.coordinates(rank)["pp"]):
        (group,) = (g for g in layout.groups(call.axis) if rank in g)
        at = group.index(rank)
        if call.collective == "all_to_all_v":
            yield ("all_to_all", group, 0), call.times
        elif call.collective != "send":
            yield (call.collective, group, call.nbytes), call.times
        elif call.between:
            yield ("send", (group[call.between[0]], group[call.between[1]]), call.nbytes), call.times
        else:
            yield ("send", (rank, group[(at + 1) % len(group)]), call.nbytes), call.times
            yield ("send", (group[at - 1], rank), call.nbytes), call.times
