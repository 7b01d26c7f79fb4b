"""Train a small language model on the source of Python's standard library, divided over ranks as the options say.

    ringtree train --dp 2                                     two ranks of this machine, each with half of the rows
    ringtree train --dp 2 --plan                              who talks to whom, and how much; nothing is started
    torchrun --nproc-per-node 2 -m ringtree.cli train --dp 2  ranks that another starts: torchrun, mpirun, srun

There are as many ranks as the product of --dp, --tp, --pp, --cp and --ep. The model's weights after so many steps are
the same, up to rounding, however the work is divided.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringtree.training import Plan

WIDTH = 100
"""Columns of what goes into a pipe."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from ringtree.cli import train_options

    train_options.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from ringtree.cli import terminal, train_options, train_plan, train_ranks

    plan = train_options.plan_of(args)
    if args.plan:
        terminal.show(train_plan.lines(plan, terminal.columns(WIDTH)))
        return 0
    _check_torch()
    world, ranks = train_ranks.here(), plan.layout.ranks
    if world.launcher == "none" and ranks > 1:
        return train_ranks.start(train_options.words(args), ranks)
    if world.size == ranks == 1:
        _train(plan)
        return 0
    return train_ranks.take_part(lambda: _train(plan), world, ranks)


def _check_torch() -> None:
    """ImportError with the command that installs it: looked for, not loaded, which takes seconds."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise ImportError("training needs torch: pip install 'ringtree[torch]' (--plan needs none)")


def _train(plan: Plan) -> None:
    import torch.distributed as dist

    from ringtree.training import Trainer

    trainer = Trainer(plan)
    for number in range(1, plan.settings.steps + 1):
        loss = trainer.mean_loss(trainer.step())
        if not dist.is_initialized() or dist.get_rank() == 0:
            print(f"step {number:>4}/{plan.settings.steps}  loss {loss:.4f}", flush=True)
