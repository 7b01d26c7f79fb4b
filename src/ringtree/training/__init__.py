"""Parallel training: the strategies that split the training of a model over ranks, one file each.

    from ringtree.training import ParallelLayout, Trainer, TrainingPlan
    Trainer(TrainingPlan(ParallelLayout(dp=2, tp=2))).step()      on each of 4 ranks, in a process group "ringtree"

A `TrainingPlan` has the model, the settings and the layout; the strategies (`strategies.registry`) divide the training
and state what they send; a `Trainer` does the steps. Needs torch, and loads it only for what trains.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ringtree.training.core.layout import ParallelLayout
from ringtree.training.core.plan import Shape, TrainingPlan, TrainingSettings

if TYPE_CHECKING:
    from ringtree.training.core.trainer import Trainer

__all__ = ["ParallelLayout", "TrainingPlan", "TrainingSettings", "Shape", "Trainer"]


def __getattr__(name: str) -> Any:
    if name == "Trainer":
        return import_module("ringtree.training.core.trainer").Trainer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
