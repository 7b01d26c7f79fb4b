"""Train a small language model on the source of Python's standard library, divided over ranks as the options say.

    ringtree train --dp 2                          two ranks of this machine, each with half of the rows
    torchrun --nproc-per-node 2 -m ringtree.cli train --dp 2

The model's weights after so many steps are the same, up to rounding, however the work is divided.
"""

from __future__ import annotations

import argparse
import os
import sys
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringtree.training import Plan

STORE = "RINGTREE_TRAIN_STORE"
"""The variable by which the ranks that this command started are told where they meet."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for axis, what in (("dp", "data"), ("tp", "tensor"), ("pp", "pipeline"), ("cp", "context"), ("ep", "expert")):
        parser.add_argument(f"--{axis}", type=int, default=1, metavar="N", help=f"{what} parallel ranks")
    parser.add_argument("--steps", type=int, default=100, metavar="N", help="of the optimizer")
    parser.add_argument("--batch", type=int, default=16, metavar="N", help="sequences a step, over all ranks")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the weights and the text")


def run(args: argparse.Namespace) -> int:
    from ringtree.runtime.launch import run
    from ringtree.training import Layout, Plan, Settings

    layout = Layout(dp=args.dp, tp=args.tp, pp=args.pp, cp=args.cp, ep=args.ep)
    plan = Plan(layout, settings=Settings(steps=args.steps, batch=args.batch, seed=args.seed))
    plan.check()
    if layout.ranks == 1 or "RANK" in os.environ or STORE in os.environ:
        return _train(plan)
    with TemporaryDirectory(prefix="ringtree-train-") as folder:
        os.environ[STORE] = f"{folder}/store"
        return run(["ringtree.cli", *sys.argv[1:]], layout.ranks, module=True)


def _train(plan: Plan) -> int:
    import torch.distributed as dist

    from ringtree.training import Trainer

    if STORE in os.environ:
        rank = int(os.environ["RINGTREE_RANK"])
        store = dist.FileStore(os.environ[STORE], plan.layout.ranks)
        dist.init_process_group("ringtree", store=store, rank=rank, world_size=plan.layout.ranks)
    elif plan.layout.ranks > 1:
        dist.init_process_group("ringtree")
    trainer = Trainer(plan)
    for number in range(1, plan.settings.steps + 1):
        loss = trainer.mean_loss(trainer.step())
        if not dist.is_initialized() or dist.get_rank() == 0:
            print(f"step {number:>4}/{plan.settings.steps}  loss {loss:.4f}", flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()
    return 0
