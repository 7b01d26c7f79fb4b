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
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringtree.cli.terminal import Bar
    from ringtree.training import Plan
    from ringtree.training.measure.measured import Measured

WIDTH = 100
"""Columns of what goes into a pipe."""
TIMEOUT_S = 120.0
"""What ranks wait for one another in a call, unless told."""
LINES = 20
"""About so many steps are told in a line."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from ringtree.cli import train_options

    train_options.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from ringtree.cli import terminal, train_options, train_plan, train_ranks
    from ringtree.cli.destination import check_destination, check_folder
    from ringtree.runtime.bootstrap.environment import detect

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
    return train_ranks.take_part(lambda: _train(plan, args), world, ranks, args.timeout or TIMEOUT_S)


def _check_torch() -> None:
    """ImportError with the command that installs it: looked for, not loaded, which takes seconds."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise ImportError("training needs torch: pip install 'ringtree[torch]' (--plan needs none)")


def _train(plan: Plan, args: argparse.Namespace) -> None:
    """As one of the ranks; the first one speaks."""
    import torch.distributed as dist

    from ringtree.cli import terminal, train_report
    from ringtree.cli.train_keeping import Keeping
    from ringtree.training import Trainer
    from ringtree.training.session import Session

    speaks = dist.get_rank() == 0
    with terminal.progress("training", total=plan.settings.steps) if speaks else nullcontext(terminal.SILENT) as bar:
        trainer = Trainer(plan)
        keeping = Keeping(args, bar)
        keeping.resume(trainer)
        measured = Session(trainer, _telling(plan, bar), keeping.keep).run()
        trainer.close()
    if speaks:
        terminal.show(train_report.lines(measured))
        _write(measured, args)


def _telling(plan: Plan, bar: Bar) -> Callable[[int, float, float], None]:
    """What is done after each step: the bar goes on, and some lines are printed."""
    steps = plan.settings.steps
    tokens = plan.settings.batch * plan.shape.context

    def told(step: int, loss: float, seconds: float) -> None:
        bar.reach(step)
        bar.note(f"loss {loss:.4f}, {tokens / seconds:,.0f} tokens/s")
        if step % max(1, steps // LINES) == 0 or step == steps:
            bar.print(f"step {step:>{len(str(steps))}}/{steps}  loss {loss:.4f}  {tokens / seconds:>9,.0f} tokens/s")

    return told


def _write(measured: Measured, args: argparse.Namespace) -> None:
    """The files that were asked for."""
    from ringtree.bench.machine import describe
    from ringtree.cli import page
    from ringtree.formats import chrome
    from ringtree.formats.replacing import replace_with_json, replacing
    from ringtree.pages.train_page import train_page

    record = {"machine": describe(), **measured.record()}
    if args.json:
        replace_with_json(args.json, record)
    if args.trace:
        chrome.write(measured.trace, args.trace)
    if args.html:
        page.write(args.html, train_page(record, measured.trace, measured.picture if measured.remembered else ""))
    if args.picture:
        with replacing(args.picture) as file:
            file.write(measured.picture.encode())
