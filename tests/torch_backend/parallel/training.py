"""The programs' model and data, and the result of one process: the reference of them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

STEPS, LENGTH = 3, 6
TOKENS, WIDTH, HEADS = 24, 16, 4
Batch = tuple[Tensor, Tensor]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # No bias: the loss does not depend on that of the keys, so its gradient is noise, which Adam would follow.
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        # Heads by their width, for tensor parallelism leaves a rank some of them.
        q, k, v = (w(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for w in (self.query, self.key, self.value))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(seen.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """A language model of `layers` blocks: tokens [sequences, LENGTH] to scores of the next [..., TOKENS]."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, TOKENS)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def transformer(seed: int = 0, layers: int = 2) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(layers)


def perceptron(seed: int = 0) -> nn.Module:
    """Takes what `points` gives."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(7, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 5))


def rows() -> int:
    """The rows of a batch: as many for each rank, in halves."""
    return 12 if dist.get_world_size() == 3 else 8


def sentences(steps: int = STEPS) -> list[Batch]:
    """Batches of `rows()` sequences each and the tokens that follow; the same on all ranks."""
    random = torch.Generator().manual_seed(7)
    drawn = [torch.randint(TOKENS, (rows(), LENGTH + 1), generator=random) for _ in range(steps)]
    return [(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()) for tokens in drawn]


def points(steps: int = STEPS) -> list[Batch]:
    random = torch.Generator().manual_seed(7)
    n = rows()
    return [(torch.randn(n, 7, generator=random), torch.randint(5, (n,), generator=random)) for _ in range(steps)]


def share(batches: Iterable[Batch], rank: int | None = None, n: int | None = None) -> list[Batch]:
    """Rank's rows of each batch, as many as every other's."""
    rank = dist.get_rank() if rank is None else rank
    n = dist.get_world_size() if n is None else n
    return [(x.chunk(n)[rank], y.chunk(n)[rank]) for x, y in batches]


def loss_of(model: nn.Module, batch: Batch) -> Tensor:
    scores = model(batch[0])
    return F.cross_entropy(scores.flatten(0, -2), batch[1].flatten())


def sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.2, momentum=0.9)


def adam(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.01)


def train(
    model: nn.Module,
    batches: Iterable[Batch],
    optimizer: Callable[..., torch.optim.Optimizer] = sgd,
    clip: float | None = None,
) -> list[Tensor]:
    """A step a batch; the losses."""
    stepper = optimizer(model.parameters())
    losses = []
    for batch in batches:
        stepper.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        stepper.step()
        losses.append(loss.detach())
    return losses


def accumulate(
    model: nn.Module, batches: Iterable[Batch], parts: int, silent: Callable[[], AbstractContextManager[object]]
) -> None:
    """Each batch in `parts`, whose gradients are added up; all but the last of them under `silent()`."""
    stepper = sgd(model.parameters())
    for x, y in batches:
        stepper.zero_grad()
        pieces = list(zip(x.chunk(parts), y.chunk(parts), strict=True))
        for k, piece in enumerate(pieces):
            with silent() if k < parts - 1 else nullcontext():
                (loss_of(model, piece) / parts).backward()
        stepper.step()


def alone(
    batches: Iterable[Batch],
    make: Callable[[], nn.Module] = transformer,
    optimizer: Callable[..., torch.optim.Optimizer] = sgd,
    clip: float | None = None,
) -> dict[str, Tensor]:
    """The parameters that one process comes to."""
    model = make()
    train(model, batches, optimizer, clip)
    return state(model)


def state(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def same(got: Mapping[str, Tensor], expected: Mapping[str, Tensor], tolerance: float = 2e-5) -> None:
    """AssertionError, which names it, where a tensor is not what one process gave."""
    assert got.keys() == expected.keys() and expected, f"{sorted(got)} instead of {sorted(expected)}"
    for name, value in expected.items():
        torch.testing.assert_close(
            got[name].detach(),
            value.detach(),
            atol=tolerance,
            rtol=tolerance,
            msg=lambda message, name=name: f"{name}: {message}",
        )
