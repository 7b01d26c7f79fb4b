"""Checkpoints as the options of `ringtree train` ask for them: when one is written, and from which training goes on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringtree.cli.terminal import Bar
    from ringtree.training import Trainer


class Keeping:
    """Every `--every` steps, and after the last."""

    def __init__(self, args: argparse.Namespace, bar: Bar) -> None:
        self._folder, self._every, self._resumes, self._bar = args.checkpoint, args.every, args.resume, bar

    def resume(self, trainer: Trainer) -> None:
        """Gives the trainer what the last checkpoint has, where that is asked for and there is one. ValueError where
        there is one and it is not asked for: new ones would lie among the old."""
        from ringtree.training.core.checkpoint import latest, load

        found = latest(self._folder) if self._folder else None
        if found is None:
            if self._resumes:
                self._bar.print(f"no checkpoint in {self._folder}: from the beginning")
            return
        if not self._resumes:
            raise ValueError(
                f"{self._folder} has checkpoints; expected --resume, to go on from the last, or a new folder"
            )
        load(trainer, found)
        self._bar.print(f"goes on from {found}")

    def keep(self, trainer: Trainer) -> None:
        from ringtree.training.core.checkpoint import save

        done, steps = trainer.steps_done, trainer.plan.settings.steps
        if self._folder and (done == steps or (self._every and done % self._every == 0)):
            save(trainer, self._folder)
