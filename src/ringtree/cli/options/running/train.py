"""Train a small language model on the source of Python's standard library, in parallel over ranks.

    ringtree train --dp 2                                     two ranks of this machine, each with half of the rows
    ringtree train --dp 2 --plan                              communication groups and bytes per step; starts nothing
    ringtree train --dp 8 --tp 8 --heads 8 --plan --topology dgx-h100
                                                              the predicted time of a step's communication on a cluster
    ringtree train --heads 8 --plan --topology dgx-h100 --compare 64 --tflops 400
                                                              layouts of 64 ranks there, the quickest first
    ringtree train --dp 2 --html page.html                    a page with the plan, results and the last step's timeline
    ringtree train --dp 2 --trace step.json.gz                events of the last step, for `ringtree show`
    ringtree train --dp 4 --elastic --max-restarts 2          goes on when ranks die, and takes them in again
    torchrun --nproc-per-node 2 -m ringtree.cli train --dp 2  ranks started by torchrun, mpirun or srun

The number of ranks is the product of --dp, --tp, --pp, --cp and --ep. The weights after a given number of steps are the
same for every layout, up to rounding; but for experts (--experts), whose capacity is a micro-batch's, and for
asynchronous steps (--async-staleness).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from math import inf
from typing import NamedTuple

from ringtree.cli.options import cluster
from ringtree.cli.options.files import to_write


class Option(NamedTuple):
    """An option that sets a field of Layout, Shape or Settings. `field`: its name where that is not the option's."""

    name: str
    kind: Callable[[str], object] | None
    metavar: str
    help: str
    field: str = ""

    @property
    def sets(self) -> str:
        """The name of the field that the option sets."""
        return self.field or self.name.replace("-", "_")

    def given(self, args: argparse.Namespace) -> object:
        """Returns the value from the command line; None where the option was left out, for the field's default."""
        return getattr(args, self.name.replace("-", "_"))


def staleness(text: str) -> float:
    """Returns a number of steps, or infinity for "inf"."""
    if text != "inf" and not text.lstrip("-").isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}; expected 0, 1, 2 … or inf")
    return inf if text == "inf" else int(text)


def seconds(text: str) -> float:
    """Returns the seconds in `text`: more than 0, less than a month."""
    try:
        if 0 < float(text) < 2.5e6:
            return float(text)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r}; expected a number of seconds, above 0 and below 2,500,000")


LAYOUT = (
    Option("dp", int, "N", "data parallel ranks: each processes a share of the rows"),
    Option("tp", int, "N", "tensor parallel ranks: each has a share of every layer"),
    Option("pp", int, "N", "pipeline parallel ranks: each has some of the layers"),
    Option("cp", int, "N", "context parallel ranks: each has a part of every sequence"),
    Option("ep", int, "N", "expert parallel ranks: each has some of the experts"),
    Option("sp", None, "", "with --tp: norms are divided too, by positions (sequence parallel)"),
    Option("zero", int, "0..3", "ZeRO over --dp: 1 divides the optimizer's state, 2 also gradients, 3 also parameters"),
    Option("schedule", str, "NAME", "schedule of the pipeline: naive, gpipe, 1f1b (default) or interleaved"),
    Option("micro-batches", int, "N", "micro-batches of a rank's rows (default 1; with --pp at least so many)"),
    Option("context", str, "NAME", "attention over --cp: ring (default) or ulysses (by all-to-all)"),
    Option("recompute", None, "", "activation recomputation: blocks keep their inputs alone, and run forward twice"),
    Option("async-staleness", staleness, "K",
        "asynchronous training: most steps that a worker may be ahead of the slowest, or inf", "staleness"),
    Option("server", str, "NAME", "server of asynchronous training: central, sharded over ranks (default) or peers"),
)  # fmt: skip
SETTINGS = (
    Option("steps", int, "N", "steps of the optimizer (default 100)"),
    Option("batch", int, "ROWS", "sequences per step, over all ranks (default 16)"),
    Option("rate", float, "R", "learning rate (default 0.001)"),
    Option("optimizer", str, "NAME", "adamw (default) or sgd"),
    Option("slow-rank", int, "RANK", "a rank whose computation is slowed down, to study stragglers"),
    Option("slow-factor", float, "F", "with --slow-rank: factor on its computing time (default 4)"),
    Option("seed", int, "N", "seed of the weights and of the order of text (default 0)"),
)
SHAPE = (
    Option("width", int, "N", "width of the model: elements of a hidden vector (default 96)"),
    Option("layers", int, "N", "transformer blocks (default 4)"),
    Option("heads", int, "N", "attention heads (default 4)"),
    Option("head-width", int, "N", "elements of a head (default --width / --heads)"),
    Option("kv-heads", int, "N", "key-value heads: grouped-query attention (default as --heads)"),
    Option("ffn-width", int, "N", "feed-forward width, of each expert too (default 4 x width)"),
    Option("gated", None, "", "gated feed-forward (SwiGLU), without biases"),
    Option("vocabulary", int, "N", "tokens of the vocabulary (default 256: bytes)"),
    Option("tied", None, "", "the output embedding (the scores' matrix) is the input embedding"),
    Option("sequence", int, "BYTES", "length of a sequence (default 64)", "context"),
    Option("experts", int, "N", "experts of each block, in place of its feed-forward part (default none; with --ep 8)"),
    Option("top-k", int, "N", "experts per token (default 2)"),
    Option(
        "capacity-factor",
        float,
        "F",
        "an expert's capacity, as a multiple of an even share of the tokens (default 1.25)",
    ),
    Option("balance", float, "W", "weight of the load-balancing loss (default 0.01)"),
)
EXPERTS = 8
"""The number of experts with --ep alone: the same model for 2, 4 and 8 ranks."""
EITHER_WAY = ("recompute",)
"""Switches that a comparison sets by itself, so that "off" is another thing than nothing."""
GROUPS = (("how the work is divided", LAYOUT), ("training", SETTINGS), ("the model", SHAPE))
NEEDS = {
    "schedule": (("pp",), "it sets the order of a pipeline"),
    "context": (("cp",), "it sets how attention works on divided sequences"),
    "every": (("checkpoint",), "it sets when a checkpoint is written"),
    "max_restarts": (("elastic",), "it sets how often a rank that died is started again"),
    "keep": (("checkpoint",), "it sets how many checkpoints stay"),
    "resume": (("checkpoint",), "it continues from a checkpoint"),
    "server": (("async_staleness",), "it sets which ranks store the weights of asynchronous training"),
    "slow_factor": (("slow_rank",), "it sets how slow that rank is"),
    "top_k": (("experts", "ep"), "it sets the number of experts per token"),
    "capacity_factor": (("experts", "ep"), "it sets the capacity of an expert"),
    "balance": (("experts", "ep"), "it weights the load-balancing loss"),
}
"""Options that have no effect without another option, or one of two others."""
OF_CLUSTERS = (*(name for name in cluster.OPTIONS if name not in ("nodes", "gpus")), "nccl")
"""The arguments of the cluster of a plan, but the machine's name."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree train`."""
    for title, options in GROUPS:
        group = parser.add_argument_group(title)
        for option in options:
            if option.name in EITHER_WAY:
                act = argparse.BooleanOptionalAction
                group.add_argument(f"--{option.name}", action=act, default=None, help=option.help)
            elif option.kind is None:
                group.add_argument(f"--{option.name}", action="store_true", default=None, help=option.help)
            else:
                group.add_argument(f"--{option.name}", type=option.kind, metavar=option.metavar, help=option.help)
    group = parser.add_argument_group("checkpoints, which any layout can resume")
    group.add_argument("--checkpoint", type=to_write, metavar="FOLDER", help="write a checkpoint after the last step")
    group.add_argument("--every", type=int, metavar="N", help="also write a checkpoint after every N steps")
    group.add_argument("--keep", type=int, metavar="K", help="keep the last K checkpoints only (default all)")
    group.add_argument(
        "--resume", action="store_true", default=None, help="continue from the last checkpoint in the folder"
    )
    group = parser.add_argument_group("when a rank dies or hangs")
    group.add_argument(
        "--elastic", action="store_true", default=None, help="with --dp alone: the other ranks go on without it"
    )
    group.add_argument(
        "--max-restarts",
        type=int,
        metavar="N",
        help="with --elastic: start killed ranks again, N times in all, to join",
    )
    group.add_argument(
        "--timeout", type=seconds, metavar="S", help="a call fails on the other ranks after S seconds (default 120)"
    )
    _add_cluster(parser)
    group = parser.add_argument_group("output")
    add = group.add_argument
    add(
        "--plan",
        action="store_true",
        help="print the position of every rank, the communication groups and the bytes of a step; starts nothing",
    )
    add(
        "--dtype",
        metavar="TYPE",
        help="with --plan: type of parameters, gradients and activations: float32 (default), bfloat16 or float16",
    )
    add(
        "--html",
        type=to_write,
        metavar="FILE",
        help="write a page: plan, results, and every rank's events of the last step",
    )
    add("--json", type=to_write, metavar="FILE", help="write all results as JSON; with --plan, the plan")
    add(
        "--trace",
        type=to_write,
        metavar="FILE",
        help="write every rank's events of the last step (JSON, for Perfetto; .gz)",
    )
    add("--picture", type=to_write, metavar="FILE", help="write a picture of every rank's calls in the last step (SVG)")


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "with --plan: the predicted time of a step's communication on a cluster of as many GPUs as ranks"
    )
    cluster.add_arguments(group, counted=False)
    cluster.add_release(group, "unknown, taken for 2.30")
    group.add_argument(
        "--compare",
        type=int,
        metavar="RANKS",
        help="compare layouts of so many ranks: in --pp, --dp and --tp where those are not given, all else as given",
    )
    group.add_argument(
        "--memory",
        metavar="B",
        help="with --compare: a GPU's memory for what a rank holds, such as 60G (default: all of it)",
    )
    group.add_argument(
        "--tflops",
        type=float,
        metavar="T",
        help="with --compare: the rate at which a GPU trains, such as 400 (TFLOP/s): adds the times of whole steps",
    )
