"""A run of `ringtree train --elastic` in one of its processes, from the start or when it joins. It needs torch."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import ringtree
from ringtree.bench.machine import describe
from ringtree.cli import terminal
from ringtree.cli.train.elastic import Roll
from ringtree.cli.train.report import of_losses
from ringtree.cli.train.session import Keeping, reporting
from ringtree.errors import PeerDied, TimedOut
from ringtree.files.replacing import replace_with_json
from ringtree.ir import units
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.launch.launch import RESTART
from ringtree.training import ParallelLayout, TrainingPlan
from ringtree.training.core.checkpoint import latest
from ringtree.training.core.plan import finite
from ringtree.training.core.trainer import Trainer
from ringtree.training.elastic import Change, ElasticSession

RANK, SIZE = "RINGTREE_RANK", "RINGTREE_WORLD_SIZE"
KNOCK_S = 2.0
"""Seconds for which a process waits to join before it looks whether anybody is left to join."""


def train(plan: TrainingPlan, args: argparse.Namespace, folder: Path, rank: int, timeout_s: float) -> None:
    """Trains as rank `rank` of the job whose processes see each other in `folder`; who is rank 0 prints.
    RuntimeError: if this process is to join, and nobody is left."""
    roll, restart = Roll(folder), os.environ.get(RESTART)
    trainer = Trainer(replace(plan, layout=ParallelLayout()))
    bar = terminal.Bar(None, None)
    keeping = Keeping(args, bar if rank == 0 and not restart else terminal.SILENT)
    name = f"rank {rank}"
    if restart:
        name += f" (restart {restart})"
        comm = _joined(roll, timeout_s)
    else:
        roll.enter("trains")
        comm = _met(roll, timeout_s)
    if comm is None:
        bar.print(f"{name} came when the training was done, and computed no step")
        return
    roll.enter("trains")
    joined = bool(comm.former_ranks)

    def resume(found: Path | None) -> None:
        keeping.resume(trainer, found, own=joined)
        if not joined:
            keeping.is_done(trainer)

    def changed(change: Change) -> None:
        bar.print(words(change))

    session = ElasticSession(
        trainer,
        comm,
        name,
        lambda: roll.any("waits"),
        reporting(plan, bar),
        changed,
        keeping.keep,
        latest=lambda: latest(args.checkpoint) if args.checkpoint else None,
        resume=resume,
    )
    session.run()
    roll.end()
    if session.comm.rank == 0:
        for line in summary(session):
            bar.print(line)
        if args.json:
            replace_with_json(args.json, {"machine": describe(), **record(session, plan)})


def _met(roll: Roll, timeout_s: float) -> Communicator | None:
    """The group of all ranks. Where one ends before all have met, the first that hears of it, at the timeout where
    nobody saw it, begins alone and takes the others in. None where the training is done."""
    try:
        return ringtree.init(timeout_s=timeout_s)
    except (PeerDied, TimedOut, TimeoutError):
        if roll.lead():
            os.environ |= {RANK: "0", SIZE: "1"}
            return ringtree.init(timeout_s=timeout_s)
    roll.leave("trains")
    if (comm := _joined(roll, timeout_s)) is not None:
        roll.enter("trains")
    return comm


def _joined(roll: Roll, timeout_s: float) -> Communicator | None:
    """The group that has taken this process in; None where the training is done."""
    roll.enter("waits")
    until_s = time.monotonic() + timeout_s
    try:
        while not roll.done:
            if not roll.any("trains") or time.monotonic() > until_s:
                raise RuntimeError("no rank has taken in this process, which was to join the training")
            try:
                return ringtree.join(timeout_s=KNOCK_S)
            except (RuntimeError, TimeoutError):
                continue
    finally:
        roll.leave("waits")
    return None


def words(change: Change) -> str:
    """A change in one line."""
    who, ranks = " and ".join(change.who), units.count(change.ranks, "rank")
    took = units.duration(change.seconds)
    if change.kind == "joined":
        return f"{who} joined after step {change.step}: {ranks}, after {took}"
    return f"lost {who} after step {change.step} ({change.why}): {ranks}, which went on after {took}"


def summary(session: ElasticSession) -> Iterator[str]:
    """The end of a run: its loss, who died or joined when, and how long that took."""
    losses, whole_s = session.losses, sum(session.step_s)
    if losses or session.changes:
        yield ""
    if losses:  # none where the last step of those who died is in the checkpoint of those who joined
        yield from of_losses(losses, whole_s, session.trainer.steps_done - len(losses) + 1)
    yield from map(words, session.changes)


def record(session: ElasticSession, plan: TrainingPlan) -> dict[str, object]:
    """The same as JSON."""
    first = session.trainer.steps_done - len(session.losses) + 1
    steps = enumerate(zip(session.losses, session.step_s, strict=True), first)
    return {
        "plan": plan.record(),
        "steps": [{"step": step, "loss": finite(loss), "seconds": seconds} for step, (loss, seconds) in steps],
        "changes": [change._asdict() for change in session.changes],
    }
