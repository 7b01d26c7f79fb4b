"""The layout of a job: the number of ranks along each axis, and each strategy's options."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import inf, prod

AXES = ("pp", "dp", "cp", "ep", "tp")
"""The axes of the mesh of ranks, from the one whose neighbours lie farthest apart to the one of adjacent ranks."""
JOINED = {"data": ("dp", "cp", "ep"), "expert_data": ("dp", "cp")}
"""Groups along several axes: of ranks with the same parameters, and of ranks with the same experts."""
SCHEDULES = ("naive", "gpipe", "1f1b", "interleaved")
SERVERS = ("central", "sharded", "peers")
CONTEXTS = ("ring", "ulysses")


class LayoutError(ValueError):
    """A layout that cannot be, with the reason."""


@dataclass(frozen=True, slots=True)
class ParallelLayout:
    """Ranks along each axis: data, tensor, pipeline, context and expert parallel; in all there are as many as their
    product.

    `sp`: sequence parallel, within the tensor parallel groups. `zero`: what the data parallel ranks divide among them:
    0 nothing, 1 the optimizer's state, 2 gradients too, 3 parameters too. `context`: how attention sees all of a
    sequence. `recompute`: a block keeps its input alone, and its forward pass is made again in the backward pass.
    `staleness`: None is synchronous; else asynchronous, each worker at most this many steps ahead of
    the slowest (inf: without a bound), weights kept by `server`.
    """

    dp: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    sp: bool = False
    zero: int = 0
    schedule: str = "1f1b"
    micro_batches: int = 1
    context: str = "ring"
    recompute: bool = False
    staleness: float | None = None
    server: str = "sharded"

    def __post_init__(self) -> None:
        for axis in AXES:
            if getattr(self, axis) < 1:
                raise LayoutError(f"{axis} is {getattr(self, axis)}; expected at least 1")
        for name, of in (("schedule", SCHEDULES), ("server", SERVERS), ("context", CONTEXTS)):
            if getattr(self, name) not in of:
                raise LayoutError(f"{name} is {getattr(self, name)!r}; expected one of {', '.join(of)}")
        if self.zero not in range(4):
            raise LayoutError(f"zero is {self.zero}; expected 0, 1, 2 or 3")
        if self.micro_batches < 1:
            raise LayoutError(f"micro_batches is {self.micro_batches}; expected at least 1")
        if self.staleness is not None and not (self.staleness == inf or self.staleness in range(1 << 30)):
            raise LayoutError(f"staleness is {self.staleness}; expected 0, 1, 2 … or inf")

    @property
    def ranks(self) -> int:
        """Ranks in all: the product of all axes."""
        return prod(getattr(self, axis) for axis in AXES)

    @property
    def forwards(self) -> int:
        """Forward passes of a micro-batch through a block: one, or with `recompute` another in the backward pass."""
        return 2 if self.recompute else 1

    def size(self, name: str) -> int:
        """The number of ranks in a group along an axis, or along those that a name of JOINED has."""
        return prod(getattr(self, axis) for axis in JOINED.get(name, (name,)))

    @property
    def pieces(self) -> int:
        """The number of parts into which the rows of a step's batch are divided."""
        return self.dp * self.ep

    def coordinates(self, rank: int) -> dict[str, int]:
        """A rank's position along each axis."""
        at = {}
        for axis in reversed(AXES):
            rank, at[axis] = divmod(rank, getattr(self, axis))
        return {axis: at[axis] for axis in AXES}

    def groups(self, name: str) -> tuple[tuple[int, ...], ...]:
        """The groups along an axis, or along those that a name of JOINED has, as ranks."""
        return _groups(tuple(getattr(self, axis) for axis in AXES), JOINED.get(name, (name,)))


@lru_cache(256)
def _groups(sizes: tuple[int, ...], along: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    lists: dict[tuple[int, ...], list[int]] = {}
    for rank, positions in enumerate(product(*map(range, sizes))):
        others = tuple(position for axis, position in zip(AXES, positions, strict=True) if axis not in along)
        lists.setdefault(others, []).append(rank)
    return tuple(map(tuple, lists.values()))
