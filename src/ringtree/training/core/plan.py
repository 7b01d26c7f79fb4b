"""The model, the settings and the layout of a training, known before a rank starts. Needs no torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ringtree.training.core.layout import ParallelLayout

STATE = {"adamw": ("exp_avg", "exp_avg_sq"), "sgd": ()}
"""The optimizers, and their state of each parameter: torch's names of tensors of its shape."""
ELEMENT_NBYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes of an element, by type."""
FLOAT_NBYTES = ELEMENT_NBYTES["float32"]
"""Bytes of an element of statistics, which are in float32 whatever the type of a plan."""
VOCABULARY = 256
"""Bytes: the text is not cut into words. A larger vocabulary has tokens that no text has."""
MOST_SEED = (1 << 32) - 1
"""So that a seed for each of its steps is one that torch takes."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a language model: `layers` blocks of attention by `heads` heads and two dense layers, vectors of
    `width`, sequences of `context` bytes.

    `head_width`: elements of a head; None: the `width` divided by the heads. `kv_heads`: heads of keys and values, each
    for as many heads of queries (grouped-query attention); None: as many as of queries. `ffn_width`: the width between
    the dense layers; None: 4 x `width`. `gated`: the dense layers are SwiGLU: three matrices without biases. `tied`:
    the scores' matrix is the embedding's.

    `experts`: pairs of dense layers in each block, of which a token goes to `top_k` (0: one pair for all tokens).
    An expert takes `capacity_factor` times its even share of the tokens at most; `balance`: the weight of the loss that
    evens their shares out.
    """

    width: int = 96
    layers: int = 4
    heads: int = 4
    context: int = 64
    vocabulary: int = VOCABULARY
    experts: int = 0
    top_k: int = 2
    capacity_factor: float = 1.25
    balance: float = 0.01
    head_width: int | None = None
    kv_heads: int | None = None
    ffn_width: int | None = None
    gated: bool = False
    tied: bool = False

    def __post_init__(self) -> None:
        for name in ("width", "layers", "heads", "context", "head_width", "kv_heads", "ffn_width"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"the model's {name} is {value}; expected at least 1")
        if self.head_width is None and self.width % self.heads:
            raise ValueError(f"a width of {self.width} is not a multiple of {self.heads} heads: use --head-width")
        if self.heads % self.key_value_heads:
            raise ValueError(
                f"{self.heads} heads are not a multiple of {self.key_value_heads} key-value heads, each of which "
                "serves as many of them"
            )
        if self.vocabulary < VOCABULARY:
            raise ValueError(f"a vocabulary of {self.vocabulary}; expected at least {VOCABULARY}, all bytes of a text")
        if self.experts < 0:
            raise ValueError(f"experts is {self.experts}; expected at least 0")
        if self.top_k < 1:
            raise ValueError(f"top_k is {self.top_k}; expected at least 1")
        if not 0 < self.capacity_factor < 1e6:
            raise ValueError(f"capacity_factor is {self.capacity_factor}; expected a positive number")
        if not 0 <= self.balance < 1e6:
            raise ValueError(f"balance is {self.balance}; expected 0 or a positive number")

    @property
    def key_value_heads(self) -> int:
        """The number of heads of keys and values."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def each_head_width(self) -> int:
        """The elements of a head."""
        return self.width // self.heads if self.head_width is None else self.head_width

    @property
    def query_width(self) -> int:
        """The width of a token's queries of all heads, and that of what attention makes."""
        return self.each_head_width * self.heads

    @property
    def key_value_width(self) -> int:
        """The width of a token's keys of all heads, and that of its values."""
        return self.each_head_width * self.key_value_heads

    @property
    def feed_forward_width(self) -> int:
        """The width between the dense layers of a block, or of an expert."""
        return 4 * self.width if self.ffn_width is None else self.ffn_width

    def record(self) -> dict[str, Any]:
        """The shape for JSON, with the numbers that follow from others in their places."""
        following = {"kv_heads": self.key_value_heads, "ffn_width": self.feed_forward_width}
        return asdict(self) | following | {"head_width": self.each_head_width}


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """Settings of a training. `batch`: sequences a step, over all ranks; `rate`: of learning. `slow_rank`: for
    demonstration, one whose computation takes `slow_factor` times as long."""

    steps: int = 100
    batch: int = 16
    rate: float = 1e-3
    optimizer: str = "adamw"
    seed: int = 0
    slow_rank: int | None = None
    slow_factor: float = 4.0

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("batch", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least {least}")
        if self.seed > MOST_SEED:
            raise ValueError(f"seed is {self.seed}; expected at most {MOST_SEED:,}")
        if not 0 < self.rate < 1e6:
            raise ValueError(f"rate is {self.rate}; expected a number above 0 and below 1,000,000")
        if not 1 <= self.slow_factor < 1e6:
            raise ValueError(f"slow_factor is {self.slow_factor}; expected at least 1, below 1,000,000")
        if self.optimizer not in STATE:
            raise ValueError(f"optimizer is {self.optimizer!r}; expected one of {', '.join(STATE)}")


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """A training run: the layout of its ranks, the model's shape, and the settings of a step. `dtype`: the type of
    parameters, gradients and activations; only a plan alone has another than float32, in which ranks train."""

    layout: ParallelLayout = field(default_factory=ParallelLayout)
    shape: Shape = field(default_factory=Shape)
    settings: TrainingSettings = field(default_factory=TrainingSettings)
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.dtype not in ELEMENT_NBYTES:
            raise ValueError(f"dtype is {self.dtype!r}; expected one of {', '.join(ELEMENT_NBYTES)}")

    @property
    def element_nbytes(self) -> int:
        """Bytes of an element of the parameters, gradients and activations."""
        return ELEMENT_NBYTES[self.dtype]

    @property
    def positions(self) -> int:
        """The number of positions of each sequence that a rank has."""
        return self.shape.context // self.layout.cp

    @property
    def rows(self) -> int:
        """Sequences that go forward through a model at once: a micro-batch's on one of the `pieces`."""
        return self.settings.batch // self.layout.pieces // self.layout.micro_batches

    def record(self) -> dict[str, Any]:
        """The plan for JSON: a staleness without a bound is "inf", and null that of synchronous training."""
        layout = asdict(self.layout) | {"staleness": finite(self.layout.staleness)}
        return {"layout": layout, "shape": self.shape.record(), "settings": asdict(self.settings)}


def finite(value: float | None) -> float | str | None:
    """The number for JSON, which has no infinity and no NaN: they are words."""
    return value if value is None or abs(value) < float("inf") else str(value)
