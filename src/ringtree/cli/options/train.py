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
from math import inf
from pathlib import Path
from typing import NamedTuple


class Option(NamedTuple):
    """An option that sets a field of Layout, Shape or Settings. `field`: where that is not named as the option is."""

    name: str
    kind: Callable[[str], object] | None
    metavar: str
    help: str
    field: str = ""

    @property
    def sets(self) -> str:
        return self.field or self.name.replace("-", "_")

    def given(self, args: argparse.Namespace) -> object:
        """None where it was left out: the default is the field's own."""
        return getattr(args, self.name.replace("-", "_"))


def staleness(text: str) -> float:
    """A number of steps, or "inf"."""
    if text != "inf" and not text.lstrip("-").isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}; expected 0, 1, 2 … or inf")
    return inf if text == "inf" else int(text)


def seconds(text: str) -> float:
    """More than none, and fewer than a month has."""
    try:
        if 0 < float(text) < 2.5e6:
            return float(text)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r}; expected a number of seconds")


LAYOUT = (
    Option("dp", int, "N", "data parallel ranks: each has a share of the rows"),
    Option("tp", int, "N", "tensor parallel ranks: each has a share of every layer"),
    Option("pp", int, "N", "pipeline parallel ranks: each has some of the layers"),
    Option("cp", int, "N", "context parallel ranks: each has a part of every sequence"),
    Option("ep", int, "N", "expert parallel ranks: each has some of the experts"),
    Option("sp", None, "", "with --tp: norms too are divided, by places (sequence parallel)"),
    Option("zero", int, "0..3", "what --dp ranks divide: 1 the optimizer's state, 2 gradients too, 3 parameters too"),
    Option("schedule", str, "NAME", "of a pipeline: naive, gpipe, 1f1b (default) or interleaved"),
    Option("micro-batches", int, "N", "parts of a rank's rows (default 1; of a pipeline as many as --pp)"),
    Option("context", str, "NAME", "of attention over --cp: ring (default) or ulysses (by all-to-all)"),
    Option("async-staleness", staleness, "K",
        "asynchronous: no worker more than K steps ahead of the slowest, or inf", "staleness"),
    Option("server", str, "NAME", "of asynchronous training: central, sharded over ranks (default) or peers"),
)  # fmt: skip
SETTINGS = (
    Option("steps", int, "N", "of the optimizer (default 100)"),
    Option("batch", int, "ROWS", "sequences a step, over all ranks (default 16)"),
    Option("rate", float, "R", "of learning (default 0.001)"),
    Option("optimizer", str, "NAME", "adamw (default) or sgd"),
    Option("slow-rank", int, "RANK", "one whose computation takes longer, to see what waits for it"),
    Option("slow-factor", float, "F", "with --slow-rank: so many times as long (default 4)"),
    Option("seed", int, "N", "of the weights and of which text is read (default 0)"),
)
SHAPE = (
    Option("width", int, "N", "elements of a vector (default 96)"),
    Option("layers", int, "N", "blocks of attention and a dense part (default 4)"),
    Option("heads", int, "N", "of attention (default 4)"),
    Option("sequence", int, "BYTES", "length of a sequence (default 64)", "context"),
    Option("experts", int, "N", "in each block, in the place of its dense part (default none, with --ep 8)"),
    Option("top-k", int, "N", "experts that a token goes to (default 2)"),
    Option("capacity-factor", float, "F", "an expert's most, over an even share of the tokens (default 1.25)"),
    Option("balance", float, "W", "weight of the loss that evens out the experts' load (default 0.01)"),
)
EXPERTS = 8
"""With --ep alone: the same model for 2, 4 and 8 ranks."""
GROUPS = (("how the work is divided", LAYOUT), ("training", SETTINGS), ("the model", SHAPE))
NEEDS = {
    "schedule": (("pp",), "it says how a pipeline goes"),
    "context": (("cp",), "it says how attention sees sequences that are divided"),
    "every": (("checkpoint",), "it says when one is written"),
    "resume": (("checkpoint",), "it goes on from one"),
    "server": (("async_staleness",), "it says who keeps the weights of asynchronous training"),
    "slow_factor": (("slow_rank",), "it says how slow that one is"),
    "top_k": (("experts", "ep"), "it says to how many experts a token goes"),
    "capacity_factor": (("experts", "ep"), "it says how much an expert takes"),
    "balance": (("experts", "ep"), "it says how much is made of the experts' load"),
}
"""Options that say nothing without another, or one of two others."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for title, options in GROUPS:
        group = parser.add_argument_group(title)
        for option in options:
            if option.kind is None:
                group.add_argument(f"--{option.name}", action="store_true", default=None, help=option.help)
            else:
                group.add_argument(f"--{option.name}", type=option.kind, metavar=option.metavar, help=option.help)
    group = parser.add_argument_group("checkpoints, which any layout goes on with")
    group.add_argument("--checkpoint", type=Path, metavar="FOLDER", help="write one after the last step")
    group.add_argument("--every", type=int, metavar="N", help="and after every N steps")
    group.add_argument("--resume", action="store_true", default=None, help="go on from the last one in the folder")
    add_timeout = parser.add_argument_group("when a rank hangs").add_argument
    add_timeout("--timeout", type=seconds, metavar="S", help="the others say so after so long in a call (default 120)")
    group = parser.add_argument_group("what is shown and written")
    add = group.add_argument
    add("--plan", action="store_true", help="which rank is where, who talks to whom, what a step sends; starts nothing")
    add(
        "--html",
        type=Path,
        metavar="FILE",
        help="write a page: plan, figures, and what every rank did in the last step",
    )
    add("--json", type=Path, metavar="FILE", help="write all figures")
    add(
        "--trace",
        type=Path,
        metavar="FILE",
        help="write what every rank did in the last step (JSON, for Perfetto; .gz)",
    )
    add("--picture", type=Path, metavar="FILE", help="write which calls every rank made in the last step (SVG)")
