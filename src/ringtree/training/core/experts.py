"""A mixture of experts instead of a block's two dense layers: each token goes to a few of many. One process's; it
knows nothing of ranks.

A router (linear, softmax) gives each token's likelihood of each expert; the `top_k` likeliest are its choices, and what
they make of it is added up by their gates: likelihoods, made to add up to 1 where there are several. An expert takes no
more than its capacity of the tokens that go forward at once: first choices before second ones, by position. A
choice above that is dropped, and a token of which all are is passed on by the residual alone.

Shazeer et al. 2017 (Outrageously Large Neural Networks), Lepikhin et al. 2020 (GShard: capacity and order), Fedus et
al. 2021 (Switch Transformers: the balancing loss, and the likelihood itself as the gate of a single choice).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.functional import gelu, silu

from ringtree.training.core.plan import Shape
from ringtree.training.core.sizes import capacity


class Route(NamedTuple):
    """The experts that tokens go to: the choices that are kept, sorted by expert ([kept] `token`, `gate`), and the
    number of times that each expert was `chosen` and of these `kept` ([experts])."""

    token: Tensor
    gate: Tensor
    chosen: Tensor
    kept: Tensor


def route(likelihoods: Tensor, top_k: int, most: int) -> Route:
    """The route of tokens by `likelihoods` [tokens, experts], each to `top_k` experts, where an expert takes `most`."""
    tokens, experts = likelihoods.shape
    gates, choices = likelihoods.topk(top_k, dim=-1)
    if top_k > 1:
        gates = gates / gates.sum(-1, keepdim=True)
    expert = choices.t().flatten()  # all first choices, then all second ones
    chosen = expert.bincount(minlength=experts)
    order = expert.argsort(stable=True)
    before = torch.arange(len(order)) - (chosen.cumsum(0) - chosen)[expert[order]]
    order = order[before < most]
    return Route(order % tokens, gates.t().flatten()[order], chosen, chosen.clamp(max=most))


def imbalance(likelihoods: Tensor, chosen: Tensor) -> Tensor:
    """Switch's loss for any `top_k`, a scalar: experts x sum of (share of the choices x mean likelihood). 1 where all
    are alike, `experts` where one has all. `likelihoods` [tokens, experts], `chosen` [experts]."""
    return len(chosen) * (chosen / chosen.sum() * likelihoods.mean(0)).sum()


class WithLoss(torch.autograd.Function):
    """Returns x unchanged; in backward, adds the gradient of a second loss. So this loss does not have to pass through
    other layers and other ranks to the final loss."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, loss: Tensor) -> Tensor:
        """Returns `x` unchanged."""
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the gradient of `x` unchanged, and 1 for the loss."""
        return gradient, gradient.new_ones(())


@dataclass(frozen=True, slots=True)
class Load:
    """Counters of routers. A layer's only grow: the difference of two is the count of the time between. Those of layers
    and ranks add up."""

    chosen: Tensor
    """[experts] choices of each."""
    kept: Tensor
    """[experts] choices that it had room for."""
    imbalance: Tensor
    """The sum over `forwards`."""
    forwards: int

    def __add__(self, other: Load) -> Load:
        total = self.imbalance + other.imbalance
        return Load(self.chosen + other.chosen, self.kept + other.kept, total, self.forwards + other.forwards)

    def __sub__(self, other: Load) -> Load:
        rest = self.imbalance - other.imbalance
        return Load(self.chosen - other.chosen, self.kept - other.kept, rest, self.forwards - other.forwards)

    @property
    def dropped(self) -> float:
        """The share of all choices that capacity dropped."""
        return 1 - float(self.kept.sum() / self.chosen.sum())

    @property
    def mean_imbalance(self) -> float:
        """The mean imbalance of all forward passes, a ratio."""
        return float(self.imbalance) / self.forwards

    def record(self) -> dict[str, Any]:
        """The counters as JSON."""
        counts = {"chosen": self.chosen.tolist(), "kept": self.kept.tolist()}
        return {**counts, "dropped": self.dropped, "imbalance": self.mean_imbalance}


class Experts(nn.Module):
    """The dense layers of each expert, two or a gated three, as stacks [experts, ...]; of some of the experts, where
    these are divided."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()

        def drawn(inputs: int, *size: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape.experts, *size).uniform_(-(inputs**-0.5), inputs**-0.5))

        width, wide = shape.width, shape.feed_forward_width
        self.gated = shape.gated
        if self.gated:
            self.gate, self.up, self.down = (
                drawn(width, width, wide),
                drawn(width, width, wide),
                drawn(wide, wide, width),
            )
        else:
            self.up, self.up_bias = drawn(width, width, wide), drawn(width, wide)
            self.down, self.down_bias = drawn(wide, wide, width), drawn(wide, width)

    def forward(self, tokens: Tensor, counts: Tensor) -> Tensor:
        """The experts' results, [tokens, width], of `tokens` [tokens, width], the first counts[0] of which are for the
        first expert here, and so on."""
        named = (self.gate, self.up, self.down) if self.gated else (self.up, self.up_bias, self.down, self.down_bias)
        stacks = (part.to_local() if isinstance(part, DTensor) else part for part in named)
        each = zip(tokens.split(counts.tolist()), *(stack.unbind() for stack in stacks), strict=True)
        if self.gated:
            return torch.cat([(silu(x @ gate) * (x @ up)) @ down for x, gate, up, down in each])
        return torch.cat([torch.addmm(c, gelu(torch.addmm(b, x, up)), down) for x, up, b, down, c in each])


Dispatch = Callable[[Tensor, Tensor, Experts], Tensor]


def at_home(tokens: Tensor, counts: Tensor, experts: Experts) -> Tensor:
    """The experts' results where all experts are on this rank."""
    made: Tensor = experts(tokens, counts)
    return made


class MixtureOfExperts(nn.Module):
    """`dispatch` brings tokens [kept, width], sorted by expert, counts[e] of them for expert e, to the experts, and
    what these make of them back."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.router = nn.Linear(shape.width, shape.experts, bias=False)
        self.experts = Experts(shape)
        self.dispatch: Dispatch = at_home
        none = torch.zeros(shape.experts, dtype=torch.int64)
        self.load = self._latest = Load(none, none, torch.zeros(()), 0)

    def forward(self, x: Tensor) -> Tensor:
        """The experts' results, weighted by the router and in the shape of `x`, [..., width]."""
        tokens = x.flatten(0, -2)
        likelihoods = self.router(tokens).softmax(-1)
        token, gate, chosen, kept = route(likelihoods, self.shape.top_k, capacity(self.shape, len(tokens)))
        made = self.dispatch(tokens[token], kept, self.experts)
        out = torch.zeros_like(tokens).index_add(0, token, made * gate[:, None])
        uneven = imbalance(likelihoods, chosen)
        self._latest = Load(chosen, kept, uneven.detach(), 1)
        beside: Tensor = WithLoss.apply(out.view_as(x), self.shape.balance * uneven)
        return beside

    def count(self) -> None:
        """Adds the latest forward pass to the load: the caller leaves out one that the backward pass makes again."""
        self.load += self._latest


def layers(model: nn.Module) -> list[MixtureOfExperts]:
    """The layers of experts in this rank's blocks."""
    return [part for part in model.modules() if isinstance(part, MixtureOfExperts)]


def stacks(model: nn.Module) -> dict[str, nn.Parameter]:
    """The experts' parameters by their names in the model."""
    names = [name for name, part in model.named_modules() if isinstance(part, Experts)]
    return {f"{name}.{p}": stack for name in names for p, stack in model.get_submodule(name).named_parameters()}


def total(loads: Sequence[Load]) -> Load | None:
    """The sum of loads; None of none."""
    return sum(loads[1:], loads[0]) if loads else None


def load_of(model: nn.Module) -> Load | None:
    """The load of all layers of this rank together; None where no layer has experts."""
    return total([layer.load for layer in layers(model)])
