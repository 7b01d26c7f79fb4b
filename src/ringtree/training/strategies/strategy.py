"""The Strategy: one way to divide training over ranks, with its changes to the model and its traffic.

The docstring of a strategy's file lists what is divided, what is sent when, and the bytes of a step as a formula, which
tests compare with the engine's counters. Code that needs torch is in a file of its own: a plan is made without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ringtree.training.core.plan import TrainingPlan

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from ringtree.training.core.mesh import TrainingMesh
    from ringtree.training.core.step import ForwardBackward


FEWEST: dict[str, Callable[[int], int]] = {
    "all_reduce": lambda n: 2 * (n - 1),
    "all_gather": lambda n: n - 1,
    "reduce_scatter": lambda n: n - 1,
    "broadcast": lambda n: n - 1,
    "all_to_all": lambda n: n - 1,
    "send": lambda n: 1,
    "all_to_all_v": lambda n: 1,
}
"""Bytes on the wire over those of the whole vector, in all of a group of n, by algorithms that move the fewest. The
whole vector: what each rank has (all_reduce, broadcast, all_to_all), the result (all_gather), the input
(reduce_scatter), the message, what is for others (all_to_all_v)."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Calls of one collective in one step: `what` they carry, on which `axis`'s groups of `ranks`, and the `nbytes` of
    their whole vectors, of all calls and all groups together. `at_most`: what is sent depends on the data, which is
    known after a step only: see `known`."""

    what: str
    collective: str
    axis: str
    ranks: int
    nbytes: int
    at_most: bool = False

    @property
    def wire_nbytes(self) -> int:
        """Bytes that all ranks together receive from others."""
        return FEWEST[self.collective](self.ranks) * self.nbytes if self.ranks > 1 else 0


@dataclass(frozen=True, slots=True)
class RankCalls:
    """Calls of one kind that a rank makes in a step: `times` calls, each of a whole vector of `nbytes` bytes (the whole
    vector of FEWEST); what they carry, by which collective and over which axis, is a row of `Traffic`.

    `between`: of messages, the positions along the axis that send and receive; None where each rank of the group sends
    to the next, and for collectives. A rank's messages are those that it sends and those that it receives."""

    what: str
    collective: str
    axis: str
    times: int
    nbytes: int
    between: tuple[int, int] | None = None


def known(traffic: Iterable[Traffic], counted: Mapping[str, int]) -> tuple[Traffic, ...]:
    """After a step: bounds replaced by the `nbytes` that were counted in it on all ranks, by what they carry."""
    return tuple(replace(t, nbytes=counted[t.what], at_most=False) if t.at_most else t for t in traffic)


def by_name(module: str, name: str) -> Callable[..., Any]:
    """Returns a function that imports `module`, which needs torch, when it is called."""

    def call(*given: Any) -> Any:
        return getattr(import_module(f"ringtree.training.strategies.{module}"), name)(*given)

    return call


@dataclass(frozen=True, slots=True)
class Strategy:
    """`used(plan)`: whether a plan asks for it. `check(plan)`: LayoutError, with the reason, where it cannot go with
    the rest; all are asked. `apply(model, plan, mesh)`: the model as this rank has it, given the one that the
    strategies before it made. `traffic(plan)`: what a step sends. `axis`: its option of the command.

    `calls(plan, position)`: the calls of a step of a rank at a position of "pp", of which `traffic` is the sum over all
    ranks; None where ranks make them at a pace of their own.

    `optimizer` and `forward_backward`, given the model as all strategies have made it: a strategy's replacement
    for the trainer's; of several the first. `after_backward`: what is left to do for the gradients
    when all passes of a step are made, before the optimizer's step. `around`: a context of all passes.

    Of the k-th rank along `axis`: `positions(plan, k)`, those of each sequence that it has, where not all have all;
    `counted(model, plan, k)`, bytes that it has sent so far of the traffic that is known `at_most`, by what they carry.
    """

    name: str
    axis: str
    used: Callable[[TrainingPlan], bool]
    check: Callable[[TrainingPlan], None]
    apply: Callable[[nn.Module, TrainingPlan, TrainingMesh], nn.Module]
    traffic: Callable[[TrainingPlan], Iterable[Traffic]]
    calls: Callable[[TrainingPlan, int], Iterable[RankCalls]] | None = None
    optimizer: Callable[[nn.Module, TrainingPlan, TrainingMesh], Optimizer] | None = None
    forward_backward: Callable[[nn.Module, TrainingPlan, TrainingMesh], ForwardBackward] | None = None
    after_backward: Callable[[nn.Module], None] | None = None
    around: Callable[[], AbstractContextManager[None]] = nullcontext
    positions: Callable[[TrainingPlan, int], list[int]] | None = None
    counted: Callable[[nn.Module, TrainingPlan, int], dict[str, int]] | None = None
