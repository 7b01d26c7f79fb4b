"""Asynchronous data parallelism with bounded staleness (ours): each rank is a worker that computes on the newest
weights it may read, and pushes its gradients, which are applied as they come. `staleness` decides what it may read;
`parameter_server` and `peers` hold the weights and send them.

- At the start, rank 0's parameters are broadcast.
- Before forward, a worker reads the weights. It waits where it is further ahead of the slowest than the bound.
- After backward, it pushes its gradients, which are on their way while it goes on. A gradient counts 1/n, so that a
  step of every worker moves the weights as far as a synchronous step does.

Bytes of a step, over n ranks with P bytes of parameters: all ranks together receive 2(n-1) P where the weights lie on
servers, as by ring all-reduce, and n(n-1) P from peers. Through the busiest rank go, in each direction, (n-1) P if it
is the only server or one of the peers, and 2(n-1)/n P if the weights are sharded. With servers there are words of 8
bytes besides.
"""

from __future__ import annotations

from collections.abc import Iterable

from ringtree.training.core.layout import LayoutError, ParallelLayout
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.sizes import parameters_nbytes
from ringtree.training.strategies.strategy import Strategy, Traffic, by_name

WORD_NBYTES = 8


def used(plan: TrainingPlan) -> bool:
    """Whether the layout bounds staleness."""
    return plan.layout.staleness is not None


def check(plan: TrainingPlan) -> None:
    """Raises LayoutError unless data parallelism alone divides the training, with two workers or more."""
    layout = plan.layout
    if not used(plan):
        return
    if layout.dp == 1:
        raise LayoutError("asynchronous training has workers that do not wait for each other: give it dp of 2 or more")
    if reason := _against(layout):
        raise LayoutError(f"asynchronous training goes with data parallelism only: {reason}")
    if layout.server == "peers" and layout.staleness and plan.settings.optimizer != "sgd":
        raise LayoutError(
            "peers apply gradients in an order of their own each, which leads to weights of their own by "
            f"{plan.settings.optimizer}: take the optimizer sgd, or a server"
        )


def _against(layout: ParallelLayout) -> str:
    """Why not with the rest of a layout; "" if it goes."""
    for axis, what in (("tp", "tensor"), ("pp", "pipeline"), ("cp", "context"), ("ep", "expert")):
        if getattr(layout, axis) > 1:
            return f"{what} parallel ranks make each step together, and so cannot be at different steps ({axis})"
    if layout.zero:
        return "the weights lie on the servers, so that there is nothing for the ranks to divide (zero)"
    return ""


def traffic(plan: TrainingPlan) -> Iterable[Traffic]:
    """Gradients to servers or peers, weights from servers, and the words of the protocol."""
    ranks, others, nbytes = plan.layout.dp, plan.layout.dp - 1, parameters_nbytes(plan)
    if plan.layout.server == "peers":
        yield Traffic("gradients to peers", "send", "dp", ranks, ranks * others * nbytes)
        return
    servers = 1 if plan.layout.server == "central" else ranks
    yield Traffic("gradients to servers", "send", "dp", ranks, others * nbytes)
    yield Traffic("weights from servers", "send", "dp", ranks, others * nbytes)
    yield Traffic("requests and their answers", "send", "dp", ranks, others * 3 * WORD_NBYTES)
    if servers > 1:
        yield Traffic("the order of updates and reads", "send", "dp", ranks, (servers - 1) * ranks * 4 * WORD_NBYTES)


def busiest_nbytes(plan: TrainingPlan) -> float:
    """Bytes of weights and gradients that the busiest rank receives in a step; it sends as many."""
    others = plan.layout.dp - 1
    return parameters_nbytes(plan) * (2 * others / plan.layout.dp if plan.layout.server == "sharded" else others)


_apply, _optimizer, _passes = (by_name("asynchronous.worker", n) for n in ("apply", "optimizer", "forward_backward"))
STRATEGY = Strategy(
    "asynchronous", "staleness", used, check, _apply, traffic, optimizer=_optimizer, forward_backward=_passes
)
