"""The trained model: a transformer that predicts a text's next byte, in plain torch. It knows nothing of ranks.

Strategies take its parts by name, so the names are the same under every layout: those of one process.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention, silu
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

from ringtree.training.core.experts import MixtureOfExperts
from ringtree.training.core.plan import Shape

Core = Callable[[Tensor, Tensor, Tensor], Tensor]


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of each position to itself and those before it: all [rows, heads, positions, width of a head]; k and v
    may have fewer heads, each of as many heads of q."""
    return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=k.shape[1] != q.shape[1])


class Attention(nn.Module):
    """Heads and projections around `core`, attention itself, which a strategy may replace."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.head_width = shape.each_head_width
        # No bias: what it adds to the keys changes no loss, and an optimizer would follow the rounding of its gradient.
        widths = (shape.query_width, shape.key_value_width, shape.key_value_width)
        self.query, self.key, self.value = (nn.Linear(shape.width, its, bias=False) for its in widths)
        self.joined = nn.Linear(shape.query_width, shape.width)
        self.core: Core = attend

    def forward(self, x: Tensor) -> Tensor:
        """Attention over `x`, [rows, positions, width], in the same shape."""
        # Heads by their width: a rank may have some of them only.
        parts = (part(x).unflatten(-1, (-1, self.head_width)) for part in (self.query, self.key, self.value))
        q, k, v = (part.transpose(1, 2) for part in parts)
        return self.joined(self.core(q, k, v).transpose(1, 2).flatten(2))


class Dense(nn.Module):
    """Two linear layers with a GELU between: width to the feed-forward width and back."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        wide = shape.feed_forward_width
        self.up, self.down = nn.Linear(shape.width, wide), nn.Linear(wide, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        """The layers' output, [..., width], of `x` in the same shape."""
        return self.down(gelu(self.up(x)))


class GatedDense(nn.Module):
    """SwiGLU: two linear layers side by side, of which the SiLU of one multiplies the other, and one back to the width;
    none has a bias (Shazeer: GLU variants improve transformer, 2020)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        wide = shape.feed_forward_width
        self.gate, self.up = (nn.Linear(shape.width, wide, bias=False) for _ in range(2))
        self.down = nn.Linear(wide, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The layers' output, [..., width], of `x` in the same shape."""
        return self.down(silu(self.gate(x)) * self.up(x))


class TransformerBlock(nn.Module):
    """Attention, then dense layers, each behind a LayerNorm and with a residual connection. `recompute`: it keeps its
    input alone, and its forward pass is made again in the backward pass, to the end (Chen et al.: Training deep nets
    with sublinear memory cost, 2016)."""

    def __init__(self, shape: Shape, recompute: bool = False) -> None:
        super().__init__()
        self.recompute = recompute
        self.before_attention, self.before_dense = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.attention = Attention(shape)
        self.dense = MixtureOfExperts(shape) if shape.experts else (GatedDense if shape.gated else Dense)(shape)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output, [rows, positions, width], of `x` in the same shape."""
        if self.recompute:
            # Where torch may stop early, the calls of a second pass are those before the last tensor that it has saved.
            with set_checkpoint_early_stop(False):
                x = checkpoint(self._through, x, use_reentrant=False, preserve_rng_state=False)
        else:
            x = self._through(x)
        if isinstance(self.dense, MixtureOfExperts):
            self.dense.count()
        return x

    def _through(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.before_attention(x))
        return x + self.dense(self.before_dense(x))


class Embedding(nn.Module):
    """Bytes [rows, positions] to vectors [rows, positions, width]: the sum of byte's and position's. `at`: the
    positions of these bytes, where they are not the first ones."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.bytes = nn.Embedding(shape.vocabulary, shape.width)
        self.places = nn.Embedding(shape.context, shape.width)
        self.at: Tensor | None = None

    def forward(self, rows: Tensor) -> Tensor:
        """Vectors, [rows, positions, width], of bytes [rows, positions]."""
        at = torch.arange(rows.shape[1]) if self.at is None else self.at
        return self.bytes(rows) + self.places(at)


class LanguageModel(nn.Module):
    """Bytes [rows, positions] to scores of the next [rows, positions, vocabulary]. A part of the layers may be absent:
    what is there is passed through. `recompute`: each block's."""

    def __init__(self, shape: Shape, recompute: bool = False) -> None:
        super().__init__()
        self.embedding: nn.Module | None = Embedding(shape)
        self.blocks = nn.ModuleDict({str(k): TransformerBlock(shape, recompute) for k in range(shape.layers)})
        self.norm: nn.Module | None = nn.LayerNorm(shape.width)
        self.scores: nn.Module | None = nn.Linear(shape.width, shape.vocabulary)
        if shape.tied:  # as small numbers as the scores need: an embedding's own are of a deviation of 1
            self.embedding.bytes.weight = self.scores.weight

    def forward(self, x: Tensor) -> Tensor:
        """Scores, [rows, positions, vocabulary], of bytes; a pipeline stage returns its last layer's output."""
        x = self.embedding(x) if self.embedding is not None else x
        for block in self.blocks.values():
            x = block(x)
        return self.scores(self.norm(x)) if self.scores is not None and self.norm is not None else x


def loss_of(scores: Tensor, wanted: Tensor) -> Tensor:
    """The mean cross-entropy over all positions, a scalar: `scores` [rows, positions, vocabulary], `wanted` [rows,
    positions]. Scores may be divided by the vocabulary (DTensor), within torch's loss_parallel."""
    loss = cross_entropy(scores.flatten(0, 1), wanted.flatten())
    return loss.to_local() if isinstance(loss, DTensor) else loss


def language_model(shape: Shape, seed: int, recompute: bool = False) -> LanguageModel:
    """The model of a seed, the same on every rank."""
    torch.manual_seed(seed)
    return LanguageModel(shape, recompute)
