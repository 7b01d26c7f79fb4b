"""Asynchronous training: staleness of reads, no torn reads, slow ranks, and ranks that die."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from math import inf
from pathlib import Path
from statistics import mean
from typing import Any
from uuid import uuid4

import pytest

from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from ringtree.training.core.layout import SERVERS, LayoutError
from ringtree.training.strategies.registry import check
from tests.torch_backend import faults
from tests.torch_backend.conftest import Worlds
from tests.training.table import SMALL
from tests.training.trained import PATIENCE_S

STEPS = 6
SLOW = TrainingSettings(steps=STEPS, batch=12, rate=0.1, optimizer="sgd", slow_rank=1, slow_factor=50)
"""One rank sleeps for far longer than all of them compute, on a busy machine too."""


def plan_of(server: str, bound: float | None, ranks: int = 3, settings: TrainingSettings = SLOW) -> TrainingPlan:
    return TrainingPlan(ParallelLayout(dp=ranks, staleness=bound, server=server), SMALL, settings)


def _run(plan: TrainingPlan) -> tuple[list[float], Counter[int]]:
    """On a rank: the means of all ranks' losses, and how stale its reads were."""
    from ringtree.training import Trainer
    from ringtree.training.measure.wire import meet

    trainer = Trainer(plan)
    trainer.step()  # what is done once
    meet()
    losses = [float(trainer.step()) for _ in range(plan.settings.steps)]
    means, staleness = trainer.mean_losses(losses), trainer.staleness
    trainer.close()
    return means, staleness


def _left_behind(plan: TrainingPlan, run: str) -> int:
    """On a rank: how many steps the slow one has made when this one has made all of its own. `run`: no other's name."""
    import torch.distributed as dist

    from ringtree.training import Trainer
    from ringtree.training.measure.wire import meet

    store, rank = dist.distributed_c10d._get_default_store(), dist.get_rank()
    trainer = Trainer(plan)
    trainer.step()
    meet()
    for _ in range(plan.settings.steps):
        trainer.step()
        store.add(f"{run}/{rank}", 1)
    made = int(store.add(f"{run}/{plan.settings.slow_rank}", 0))
    trainer.close()
    return made


@pytest.mark.parametrize("bound", [1, 3])
@pytest.mark.parametrize("server", SERVERS)
def test_reads_are_as_stale_as_the_bound_and_never_more(worlds: Worlds, server: str, bound: int) -> None:
    """Beside a slow rank another comes to it."""
    ranks = worlds(3).run(_run, plan_of(server, bound), within_s=PATIENCE_S)
    assert max(max(staleness) for _, staleness in ranks) == bound
    assert all(sum(staleness.values()) == STEPS + 1 for _, staleness in ranks)


WIDE = Shape(width=64, layers=2, heads=4, context=8)
"""A shape whose messages have several pieces."""


READS = 40


def _fallen(plan: TrainingPlan) -> tuple[list[tuple[float, float]], float]:
    """Every gradient is 1 everywhere, whatever the loss, so that all weights fall alike: by how many updates the least
    and the most of them have fallen, in each of many reads while updates rain; and how far, once all are applied."""
    import torch

    from ringtree.training import Trainer

    trainer = Trainer(plan)
    flat: Any = trainer.model.flat  # type: ignore[union-attr]
    began, reads, update = flat.weights.clone(), [], plan.settings.rate / plan.layout.dp
    for _ in range(READS):
        trainer.model.read()  # type: ignore[operator]
        fell = (began - flat.weights) / update
        reads.append((float(fell.min()), float(fell.max())))
        trainer.optimizer.zero_grad()
        flat.gradients.copy_(torch.ones_like(flat.gradients))
        trainer.optimizer.step()
    trainer.collect()
    at_last = float((began - flat.weights).mean()) / update
    trainer.close()
    return reads, at_last


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("bound", [2, inf])
def test_weights_are_never_torn_and_have_every_update_once(worlds: Worlds, server: str, bound: float) -> None:
    """A read at clock c has all workers' updates before c less the bound, none from c and the bound on."""
    settings = TrainingSettings(batch=4, rate=1.0, optimizer="sgd")
    plan = TrainingPlan(ParallelLayout(dp=4, staleness=bound, server=server), WIDE, settings)
    for reads, at_last in worlds(4).run(_fallen, plan, within_s=PATIENCE_S):
        assert max(most - least for least, most in reads) < 0.1  # rounding
        assert all(4 * (clock - bound) < least + 0.1 for clock, (least, _) in enumerate(reads))
        assert all(most - 0.1 < 4 * (clock + bound) for clock, (_, most) in enumerate(reads))
        assert at_last == pytest.approx(4 * READS, abs=0.1)


@pytest.mark.parametrize("server", SERVERS)
def test_a_slow_rank_does_not_hold_up_the_others(worlds: Worlds, server: str) -> None:
    """The other ranks end their steps when the slow one has made a few; synchronous, all wait for it."""
    apart, together = (
        worlds(3).run(_left_behind, plan_of(server, bound), uuid4().hex, within_s=PATIENCE_S) for bound in (inf, None)
    )
    assert all(made <= STEPS // 2 for rank, made in enumerate(apart) if rank != SLOW.slow_rank)
    assert all(made >= STEPS - 1 for made in together)


LEARNING = Shape(width=32, layers=2, heads=4, context=32)
LAST = 5
"""Steps whose losses are averaged."""


def _learnt(worlds: Worlds, bound: float | None, settings: TrainingSettings) -> tuple[float, float]:
    """The loss before anything is learnt, and at last: the mean of what both ranks computed on."""
    results = worlds(2).run(
        _run, TrainingPlan(ParallelLayout(dp=2, staleness=bound), LEARNING, settings), within_s=PATIENCE_S
    )
    losses = results[0][0]
    assert bound in (None, inf) or max(max(staleness) for _, staleness in results) == bound
    return losses[0], mean(losses[-LAST:])


def test_training_within_a_bound_learns_as_synchronous_training(worlds: Worlds) -> None:
    settings = TrainingSettings(steps=25, batch=16, rate=3e-3, slow_rank=1, slow_factor=8)
    first, synchronous = _learnt(worlds, None, settings)
    assert synchronous < 0.75 * first
    for bound in (0, 4):
        assert _learnt(worlds, bound, settings)[1] == pytest.approx(synchronous, rel=0.05)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_without_a_bound_less_is_learnt_from_as_many_samples(worlds: Worlds) -> None:
    """Beside a rank 16 times slower, over seeds: a fast rank lacks what a slow one has not brought yet."""

    def learnt(bound: float | None) -> float:
        settings = (TrainingSettings(30, 16, 1e-3, "adamw", seed, 1, 16.0) for seed in range(3))
        return mean(_learnt(worlds, bound, of)[1] for of in settings)

    synchronous = learnt(None)
    bounded = [learnt(bound) for bound in range(5)]
    assert bounded == pytest.approx([synchronous] * 5, rel=0.05)
    assert learnt(inf) > 1.05 * max(bounded)


def _dies(rank: int, plan: TrainingPlan) -> None:
    import os

    from ringtree.training import Trainer

    trainer = Trainer(plan)
    for step in range(100):
        if rank == 1 and step == 3:
            os._exit(7)
        trainer.step()


@pytest.mark.parametrize("server", SERVERS)
def test_a_rank_that_dies_is_named_to_all(tmp_path: Path, server: str) -> None:
    stories, codes = faults.run(3, tmp_path, _dies, plan_of(server, 1))
    assert codes[1] == 7
    assert sorted(stories) == [0, 2]
    for story in stories.values():
        assert "PeerDied" in story.kinds or "Poisoned" in story.kinds
        assert "rank 1 died" in story.text


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ({"dp": 1}, "dp of 2 or more"),
        ({"server": "peers"}, "take the optimizer sgd"),
    ],
)
def test_excluded_combinations_are_refused(layout: dict[str, Any], expected: str) -> None:
    plan = TrainingPlan(replace(ParallelLayout(dp=2, staleness=2), **layout))
    with pytest.raises(LayoutError, match=expected):
        check(plan)


def _held_after_a_checkpoint(plan: TrainingPlan, folder: Path) -> list[Any]:
    """On a rank: the memory after a step, after a checkpoint, after the whole weights, and once that is loaded."""
    from ringtree.training import Trainer
    from ringtree.training.core.checkpoint import load, save
    from ringtree.training.measure.memory import held

    trainer = Trainer(plan)
    trainer.step()
    found = [held(trainer)]
    made = save(trainer, folder)
    found.append(held(trainer))
    trainer.weights()
    found.append(held(trainer))
    load(trainer, made)
    found.append(held(trainer))
    trainer.close()
    return found


@pytest.mark.parametrize("server", ["central", "sharded"])
def test_a_checkpoint_leaves_no_collected_state_behind(worlds: Worlds, server: str, tmp_path: Path) -> None:
    plan = plan_of(server, 0, 2, TrainingSettings(batch=4, optimizer="adamw"))
    for before, *after in worlds(2).run(_held_after_a_checkpoint, plan, tmp_path):
        assert after == [before] * 3


def _facts_of_a_checkpoint(plan: TrainingPlan, folder: Path) -> str:
    """On a rank: the text of training.json. It loads the checkpoint, too."""
    from ringtree.training import Trainer
    from ringtree.training.core.checkpoint import FACTS, load, save

    trainer = Trainer(plan)
    made = save(trainer, folder)
    load(trainer, made)
    trainer.close()
    return (made / FACTS).read_text()


def test_a_checkpoint_without_a_bound_is_json_as_everyone_reads_it(worlds: Worlds, tmp_path: Path) -> None:
    """It has no infinity; and null is synchronous training's."""
    text = worlds(2).run(_facts_of_a_checkpoint, plan_of("sharded", inf, 2), tmp_path)[0]
    facts = json.loads(text, parse_constant=pytest.fail)
    assert facts["layout"]["staleness"] == "inf"
    assert facts["settings"]["optimizer"] == "sgd" and facts["shape"]["width"] == SMALL.width
