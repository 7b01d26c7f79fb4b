"""A run of `ringtree train` on one of its ranks: from the last checkpoint to the files asked for. It needs torch."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import torch.distributed as dist

from ringtree.bench.machine import describe
from ringtree.cli import terminal
from ringtree.cli.arguments.destination import write_page
from ringtree.cli.terminal import Bar
from ringtree.cli.train import report as train_report
from ringtree.files.replacing import replace_with_json, replacing
from ringtree.formats import chrome
from ringtree.ir import units
from ringtree.pages.train_page import train_page
from ringtree.training import TrainingPlan
from ringtree.training.core.checkpoint import claimed, latest_of_all, load, save
from ringtree.training.core.trainer import Trainer
from ringtree.training.measure.measured import TrainingRecord
from ringtree.training.session import Session

LINES = 20
"""Lines printed per training, about."""


def train(plan: TrainingPlan, args: argparse.Namespace) -> None:
    """Trains as one of the ranks; rank 0 prints."""
    speaks = dist.get_rank() == 0
    shown = terminal.progress("training", total=plan.settings.steps) if speaks else nullcontext(terminal.SILENT)
    with claimed(args.checkpoint), shown as bar:
        trainer = Trainer(plan)
        keeping = Keeping(args, bar)
        keeping.resume(trainer, latest_of_all(args.checkpoint) if args.checkpoint else None)
        if keeping.is_done(trainer):
            unwritten = [f"--{name}" for name in ("json", "html", "trace", "picture") if getattr(args, name)]
            if unwritten:
                bar.print(f"nothing was measured, and nothing is written by {' and '.join(unwritten)}")
            trainer.close()
            return
        measured = Session(trainer, reporting(plan, bar), keeping.keep).run()
        trainer.close()
    if speaks:
        terminal.show(train_report.lines(measured))
        _write(measured, args)


def reporting(plan: TrainingPlan, bar: Bar) -> Callable[[int, float, float], None]:
    """Returns the function called after each step: it moves the bar on, and prints some of the lines."""
    steps = plan.settings.steps
    tokens = plan.settings.batch * plan.shape.context

    def report(step: int, loss: float, seconds: float) -> None:
        bar.reach(step)
        bar.note(f"loss {loss:.4f}, {tokens / seconds:,.0f} tokens/s")
        if step % max(1, steps // LINES) == 0 or step == steps:
            bar.print(f"step {step:>{len(str(steps))}}/{steps}  loss {loss:.4f}  {tokens / seconds:>9,.0f} tokens/s")

    return report


def _write(measured: TrainingRecord, args: argparse.Namespace) -> None:
    """The files that were asked for."""
    record = {"machine": describe(), **measured.record()}
    if args.json:
        replace_with_json(args.json, record)
    if args.trace:
        chrome.write(measured.trace, args.trace)
    if args.html:
        write_page(args.html, train_page(record, measured.trace, measured.picture if measured.remembered else ""))
    if args.picture:
        with replacing(args.picture) as file:
            file.write(measured.picture.encode())


class Keeping:
    """Checkpoints as the options ask for them: when one is written, and from which training goes on."""

    def __init__(self, args: argparse.Namespace, bar: Bar) -> None:
        self._folder, self._every, self._resumes, self._bar = args.checkpoint, args.every, args.resume, bar
        self._most_kept: int | None = args.keep
        self._kept_steps: int | None = None

    def resume(self, trainer: Trainer, found: Path | None, *, own: bool = False) -> None:
        """Gives the trainer what the last checkpoint, which was `found`, has, where that is asked for and there is one.
        ValueError where there is one and it is not asked for: new ones would lie among the old; and where it has
        more steps than are asked for. `own`: it is this training's own, if it is not asked for."""
        if found is None:
            if self._resumes:
                self._bar.print(f"no checkpoint in {self._folder}: training starts from the beginning")
            return
        if not (self._resumes or own):
            raise ValueError(
                f"{self._folder} has checkpoints; expected --resume, to continue from the last one, or a new folder"
            )
        changed = load(trainer, found)
        self._kept_steps = done = trainer.steps_done
        if done > trainer.plan.settings.steps:
            raise ValueError(
                f"{found}: {units.count(done, 'step')} are done already; expected --steps {done} or more, or a folder "
                "without that one"
            )
        self._bar.print(f"resumed from {found}" + (f", with {', '.join(changed)}" if changed else ""))

    def is_done(self, trainer: Trainer) -> bool:
        """Whether what was resumed has all the steps that are asked for, which it states: a launcher that restarts a
        job whose last checkpoint is there has its result."""
        steps = trainer.plan.settings.steps
        if self._kept_steps is None or trainer.steps_done < steps:
            return False
        self._bar.print(f"{units.count(steps, 'step')} asked for, and done already: nothing is left to train")
        return True

    def keep(self, trainer: Trainer) -> None:
        """Writes a checkpoint after the last step, and after every N steps where N was asked for; earlier ones go where
        so many were not."""
        done, steps = trainer.steps_done, trainer.plan.settings.steps
        asked = done == steps or (self._every and done % self._every == 0)
        if self._folder and asked and done != self._kept_steps:
            save(trainer, self._folder, self._most_kept)
