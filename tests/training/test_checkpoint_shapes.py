"""Checkpoints of models of any shape: resumed under another layout, and those that were written before a shape had
all of its names."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ringtree.training import ParallelLayout, TrainingPlan
from tests.torch_backend.conftest import Worlds
from tests.training.table import plan
from tests.training.trained import TOLERANCE, alone

FEW_EXPERTS = ("zero3 dp4 of few experts", "zero2 dp2 ep2 of few experts", "zero3 dp3 of experts that leave a rest")
"""Layouts that divide stacks of experts along other dimensions than the first."""


def _write(its: TrainingPlan, folder: Path) -> Path:
    """On a rank, or here: after the first step."""
    from ringtree.training import Trainer
    from ringtree.training.core.checkpoint import save

    trainer = Trainer(its)
    trainer.step()
    made = save(trainer, folder)
    trainer.close()
    return made


def _go_on(its: TrainingPlan, folder: Path) -> list[float]:
    """On a rank, or here: the losses of the steps that are left."""
    from ringtree.training import Trainer
    from ringtree.training.core.checkpoint import latest, load

    trainer, found = Trainer(its), latest(folder)
    assert found is not None
    load(trainer, found)
    losses = [trainer.mean_loss(trainer.step()) for _ in range(its.settings.steps - trainer.steps_done)]
    trainer.close()
    return losses


def _alone(its: TrainingPlan) -> TrainingPlan:
    return replace(its, layout=ParallelLayout())


@pytest.mark.parametrize("name", ["zero3 dp2 sp2 own shape", "zero3 dp2 tied", *FEW_EXPERTS])
def test_another_layout_goes_on(worlds: Worlds, tmp_path: Path, name: str) -> None:
    its = plan(name)
    expected, *_ = alone(_alone(its))
    _write(_alone(its), tmp_path / "one")
    world = worlds(its.layout.ranks)
    for losses in world.run(_go_on, its, tmp_path / "one"):
        assert losses == pytest.approx(expected[1:], abs=TOLERANCE)
    world.run(_write, its, tmp_path / "several")
    assert _go_on(_alone(its), tmp_path / "several") == pytest.approx(expected[1:], abs=TOLERANCE)


def test_one_without_the_names_of_later_shapes_is_resumed(tmp_path: Path) -> None:
    its = _alone(plan("dp2"))
    file = _write(its, tmp_path) / "training.json"
    facts = json.loads(file.read_text())
    for name in ("head_width", "kv_heads", "ffn_width", "gated", "tied"):
        del facts["shape"][name]
    file.write_text(json.dumps(facts))
    assert _go_on(its, tmp_path) == pytest.approx(alone(its)[0][1:], abs=TOLERANCE)
    with pytest.raises(ValueError, match=r"of another training: kv_heads 4 instead of 2$"):
        _go_on(replace(its, shape=replace(its.shape, kv_heads=2)), tmp_path)
    with pytest.raises(ValueError, match=r"of another training: head_width 4 instead of 6$"):
        _go_on(replace(its, shape=replace(its.shape, head_width=6)), tmp_path)
    with pytest.raises(ValueError, match=r"of another training: heads 4 instead of 2$"):
        _go_on(replace(its, shape=replace(its.shape, heads=2)), tmp_path)
