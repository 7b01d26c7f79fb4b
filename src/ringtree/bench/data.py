"""Data whose result is known exactly in advance, on every rank, whatever the order of the reduction.

Every rank has a table of small numbers of its own, PERIOD long; its element at position p of the whole vector in
iteration k is table[(p + k * STEP) % PERIOD]. So the reduction of all ranks is periodic too, one small table again,
and a check costs one pass of comparison. PERIOD is prime: a chunk that lands in another's place is seen. The numbers
are chosen so that every partial result is representable (as nccl-tests' verifiable/ does): a check is bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.collective import REDUCED, Collective

PERIOD = 8191
STEP = 2713
RUN = 64 * 1024  # elements copied or compared at a time: long enough for memory speed, short enough for the cache

Values = NDArray[Any]


def datatype(name: str) -> np.dtype[Any]:
    """The numpy dtype of that name, which may be nccl-tests' (float, double, bfloat16)."""
    known = {"float": "float32", "double": "float64", "int": "int32", "bf16": "bfloat16"}
    wanted = known.get(name, name)
    if wanted == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise ValueError("bfloat16 needs the package ml_dtypes: pip install ml_dtypes") from None
        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    if wanted not in ("int32", "int64", "float32", "float64"):
        raise ValueError(f"no datatype {name!r}: expected int32, int64, float32, float64 or bfloat16")
    return np.dtype(wanted)


def exact_up_to(dtype: np.dtype[Any]) -> int:
    """Every integer up to this is representable: 2 ** (bits of the significand)."""
    return {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24, "int32": 2**31 - 1}.get(dtype.name, 2**53)


def table(rank: int, ranks: int, dtype: np.dtype[Any], op: str) -> NDArray[np.float64]:
    """One rank's numbers, as float64 (each exact in `dtype`, as is every partial result of `op` over `ranks`)."""
    draw = np.random.default_rng(rank)
    if op == "prod":
        if dtype.kind in "iu":  # signs, and a few small factors: 3 ** 5 stays small
            high = 3 if rank < 5 else 1
            return np.asarray(draw.integers(1, high + 1, PERIOD) * draw.choice([-1, 1], PERIOD), dtype=np.float64)
        exponent = draw.integers(-1, 2, PERIOD) if rank < 100 else np.zeros(PERIOD)
        return np.asarray(draw.choice([-1, 1], PERIOD) * np.exp2(exponent), dtype=np.float64)
    if op in ("max", "min"):
        return draw.integers(-100, 101, PERIOD).astype(np.float64)
    unit = ranks if op == "avg" else 1  # a mean is exact where every number is a multiple of the ranks
    room = exact_up_to(dtype) // unit
    high = min(room // min(ranks, max(room, 1)), 100) if rank < room else 0
    return unit * draw.integers(-high, high + 1, PERIOD).astype(np.float64)


@dataclass(frozen=True)
class Data:
    """What one case's ranks hold and must get. `count`: elements of the whole vector; `op` counts if it reduces."""

    collective: Collective
    ranks: int
    count: int
    dtype: np.dtype[Any]
    op: str = "sum"
    root: int = 0

    @property
    def blocks(self) -> int:
        return self.ranks if self.collective.blocked else 1

    def length(self, window: range) -> int:
        """Elements of a window of blocks."""
        return len(window) * (self.count // self.blocks)

    def held(self, rank: int) -> range:
        """The blocks that are `rank`'s input."""
        return self.collective.held(rank, self.ranks, self.blocks, self.root)

    def owed(self, rank: int) -> range:
        """The blocks that are `rank`'s output."""
        return self.collective.owed(rank, self.ranks, self.blocks, self.root)

    def fill(self, x: Values, rank: int, iteration: int) -> None:
        """Writes `rank`'s input of that iteration into the flat array `x`."""
        for number, block in enumerate(self.held(rank)):
            for part, known in self._runs(x, number, block, iteration, self._tiled(rank)):
                part[:] = known

    def wrong(self, y: Values, rank: int, iteration: int) -> int:
        """How many elements of `rank`'s output `y` are not, bit for bit, what they must be."""
        bits = np.dtype(f"u{self.dtype.itemsize}")
        total = 0
        _, labels, origins = self.collective.promised(rank, self.ranks, self.blocks, self.root)
        contributors = self.collective.contributors(rank, self.ranks)
        for number, (label, origin) in enumerate(zip(labels.tolist(), origins.tolist(), strict=True)):
            tiled = self._tiled(origin, contributors if origin == REDUCED else None)
            for part, known in self._runs(y, number, label, iteration, tiled):
                total += int(np.count_nonzero(part.view(bits) != known.view(bits)))
        return total

    def _runs(self, x: Values, number: int, block: int, iteration: int, tiled: Values) -> list[tuple[Values, Values]]:
        """Pieces of `x`'s block `number` beside what `tiled` says of the whole vector's block `block`."""
        size = self.count // self.blocks
        start = block * size + iteration * STEP
        pieces = []
        for at in range(0, size, RUN):
            length = min(RUN, size - at)
            phase = (start + at) % PERIOD
            pieces.append((x[number * size + at :][:length], tiled[phase : phase + length]))
        return pieces

    @cached_property
    def _tiles(self) -> dict[tuple[int, range | None], Values]:
        return {}

    def _tiled(self, origin: int, contributors: range | None = None) -> Values:
        """The table of `origin` (REDUCED: the contributors' reduction), written out long enough for any run."""
        known = self._tiles.get((origin, contributors))
        if known is None:
            if contributors is not None:
                numbers = self._reduced(contributors)
            else:
                numbers = table(origin, self.ranks, self.dtype, self.op if self.collective.reduces else "sum")
            known = self._tiles[origin, contributors] = np.resize(numbers.astype(self.dtype), PERIOD + RUN)
        return known

    def _reduced(self, contributors: range) -> NDArray[np.float64]:
        reduce = {"sum": np.add, "avg": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[self.op]
        total = table(contributors[0], self.ranks, self.dtype, self.op)
        for rank in contributors[1:]:
            total = reduce(total, table(rank, self.ranks, self.dtype, self.op))
        return total / len(contributors) if self.op == "avg" else total
