"""Train a small language model on the source of Python's standard library, divided over ranks as the options say.

    ringtree train --dp 2                                     two ranks of this machine, each with half of the rows
    ringtree train --dp 2 --plan                              who talks to whom, and how much; nothing is started
    ringtree train --dp 2 --html page.html                    a page: the plan, the figures, the last step's timeline
    ringtree train --dp 2 --trace step.json.gz                what every rank did in the last step, for `ringtree show`
    torchrun --nproc-per-node 2 -m ringtree.cli train --dp 2  ranks that another starts: torchrun, mpirun, srun

There are as many ranks as the product of --dp, --tp, --pp, --cp and --ep. The model's weights after so many steps are
the same, up to rounding, however the work is divided.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from importlib.util import find_spec

from ringtree.cli import terminal, train_options, train_plan, train_ranks
from ringtree.cli.destination import check_destination, check_folder
from ringtree.runtime.bootstrap.environment import detect

WIDTH = 100
"""Columns of what goes into a pipe."""
TIMEOUT_S = 120.0
"""What ranks wait for one another in a call, unless told."""
SESSION = "ringtree.cli.train_session"
"""The module that trains, which needs torch: each rank loads it, and neither who plans nor who starts the ranks."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    train_options.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    plan = train_options.plan_of(args)
    if args.plan:
        terminal.show(train_plan.lines(plan, terminal.columns(WIDTH)))
        return 0
    _check_torch()
    written = [path for path in (args.json, args.trace, args.html, args.picture) if path]
    for path in written:
        check_destination(path, *(other for other in written if other is not path))
    if args.checkpoint:
        check_folder(args.checkpoint)
    world, ranks = detect(), plan.layout.ranks
    if world.launcher == "none" and ranks > 1:
        return train_ranks.start(train_options.words(args), ranks)
    return train_ranks.take_part(
        lambda: import_module(SESSION).train(plan, args), world, ranks, args.timeout or TIMEOUT_S
    )


def _check_torch() -> None:
    """ImportError with the command that installs it: looked for, not loaded, which takes seconds."""
    if find_spec("torch") is None:
        raise ImportError("training needs torch: pip install torch (--plan needs none)")
