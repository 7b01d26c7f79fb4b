"""The options that `ringtree train --elastic` goes with, and the files by which its processes see each other."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ringtree.training import ParallelLayout, TrainingPlan
from ringtree.training.core.layout import LayoutError
from ringtree.training.strategies import registry

WHOLE = "a rank that is left must have the whole model and the optimizer's state"
SAME = "it shows the last step of ranks that are the same from the first"
NOT_WITH = {
    "tp": WHOLE,
    "pp": WHOLE,
    "cp": WHOLE,
    "ep": WHOLE,
    "sp": WHOLE,
    "zero": WHOLE,
    "async_staleness": "its ranks make each step together",
    "experts": "the tokens that an expert drops depend on the number of ranks",
    "micro_batches": "its rows are divided anew when ranks die",
    "slow_rank": "the ranks' numbers change",
    "html": SAME,
    "trace": SAME,
    "picture": SAME,
}
"""Options that elastic training does not go with, and why."""
NOTHING = {"tp": 1, "pp": 1, "cp": 1, "ep": 1, "zero": 0, "experts": 0, "micro_batches": 1}
"""The values, beside none, by which options ask for nothing."""


def check(plan: TrainingPlan, args: argparse.Namespace) -> None:
    """LayoutError or ValueError of one line where elastic training does not go with the rest, or a rank, which has the
    whole model, cannot train it."""
    for name, why in NOT_WITH.items():
        if getattr(args, name) not in (None, NOTHING.get(name)):
            raise LayoutError(f"--elastic does not go with --{name.replace('_', '-')}: {why}")
    if plan.layout.dp < 2:
        raise LayoutError("--elastic without --dp: expected at least 2 ranks, of which one can go on")
    if plan.settings.batch < plan.layout.dp:
        raise LayoutError(
            f"a batch of {plan.settings.batch} rows for {plan.layout.dp} ranks; expected a row for each at least"
        )
    if args.max_restarts is not None and args.max_restarts < 0:
        raise ValueError(f"--max-restarts {args.max_restarts}: expected 0 or more")
    registry.check(replace(plan, layout=ParallelLayout()))


class Roll:
    """The processes of a job on this machine, by files in its folder that have their ids in their names."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def enter(self, part: str) -> None:
        """Notes that this process takes that part: "trains" or "waits"."""
        (self._folder / f"{part}-{os.getpid()}").touch()

    def leave(self, part: str) -> None:
        """Notes that it does not any more."""
        (self._folder / f"{part}-{os.getpid()}").unlink(missing_ok=True)

    def any(self, part: str) -> bool:
        """Whether a process that lives takes that part."""
        with os.scandir(self._folder) as files:
            found = [name.partition("-")[2] for file in files if (name := file.name).startswith(f"{part}-")]
        return any(_lives(int(pid)) for pid in found)

    def lead(self) -> bool:
        """Whether this process is the first to ask."""
        with suppress(FileExistsError):
            (self._folder / "leads").touch(exist_ok=False)
            return True
        return False

    def end(self) -> None:
        """Notes that the training is done."""
        (self._folder / "done").touch()

    @property
    def done(self) -> bool:
        """Whether it is."""
        return (self._folder / "done").exists()


def _lives(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False
