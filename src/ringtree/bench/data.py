"""Data whose result is known exactly in advance, on every rank, for every order of the reduction.

Every rank has a table of small numbers of its own, PERIOD long; its element at position p of the whole vector in
iteration k is table[(p + k * STEP) % PERIOD]. So the reduction of all ranks is periodic too, one small table again,
and a check costs one pass of comparison. PERIOD is prime: a chunk at another's position is detected. The numbers
are chosen so that every partial result is representable (as nccl-tests' verifiable/ does): a check is bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.collective import REDUCED, Collective
from ringtree.runtime.arrays import dtype_named
from ringtree.runtime.types import BITWISE, BY_LABEL, COMPLEX, LOGICAL, PAIRS, Dtype, supported
from ringtree.runtime.types import OPS as ALL_OPS

PERIOD = 8191
STEP = 2713
RUN = 64 * 1024  # elements copied or compared at a time: long enough for memory speed, short enough for the cache

Values = NDArray[Any]


TYPES = tuple(d.label for d in Dtype if d not in (*COMPLEX, *PAIRS))
"""The types there is data for: complex numbers and pairs have no natural table of exact ones."""
_NAMES = {
    "float": "float32", "double": "float64", "half": "float16", "int": "int32", "bf16": "bfloat16",
    "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
}  # fmt: skip
OPS = tuple(op for op in ALL_OPS if any(supported(BY_LABEL[label], op) for label in TYPES))
_STEP: dict[str, Any] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "avg": np.add,
    "band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor,
    "land": np.logical_and, "lor": np.logical_or, "lxor": np.logical_xor,
}  # fmt: skip


def datatype(name: str) -> np.dtype[Any]:
    """The numpy dtype of that name, which may be nccl-tests' (float, double, bfloat16, f8e4m3). ValueError: if there is
    none, or its package is missing."""
    wanted = _NAMES.get(name, name)
    if wanted not in TYPES:
        why = "; there is no table of exact complex numbers or pairs to check with" if wanted in BY_LABEL else ""
        raise ValueError(f"no datatype {name!r}: expected {', '.join(TYPES[:-1])} or {TYPES[-1]}{why}")
    try:
        return dtype_named(wanted)
    except TypeError as lacking:  # ml_dtypes
        raise ValueError(str(lacking)) from None


def exact_up_to(dtype: np.dtype[Any]) -> int:
    """The integer up to which all from 0 on are representable: for floats 2 ** (bits of the significand)."""
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).max)
    bits = {"bool": 0, "float8_e5m2": 3, "float8_e4m3fn": 4, "bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}
    return 1 << bits[dtype.name]


def table(rank: int, ranks: int, dtype: np.dtype[Any], op: str) -> NDArray[np.float64]:
    """One rank's numbers [PERIOD] as float64 (each exact in `dtype`, as is every partial result of `op` over
    `ranks`)."""
    draw = np.random.default_rng(rank)
    most = min(exact_up_to(dtype), 100)
    low = 0 if dtype.kind in "ub" else -1
    if op in LOGICAL:  # as often true as not, when all is joined
        zeros = {"land": 1 / (ranks + 1), "lor": ranks / (ranks + 1), "lxor": 0.5}[op]
        return np.where(draw.random(PERIOD) < zeros, 0, draw.integers(1, most + 1, PERIOD)).astype(np.float64)
    if op in (*BITWISE, "max", "min") or dtype.kind == "b":
        return draw.integers(low * most, most + 1, PERIOD).astype(np.float64)
    if op == "prod":
        signs = draw.choice([-1, 1] if low else [1], PERIOD)
        if dtype.kind in "iu":  # a few small factors: 3 ** 4 stays small
            return np.asarray(draw.integers(1, 4 if rank < 4 else 2, PERIOD) * signs, dtype=np.float64)
        scaling = {"float8_e4m3fn": 6, "float8_e5m2": 14, "float16": 14}.get(dtype.name, 100)  # ranks
        exponent = draw.integers(-1, 2, PERIOD) if rank < scaling else np.zeros(PERIOD)
        return np.asarray(signs * np.exp2(exponent), dtype=np.float64)
    unit = ranks if op == "avg" else 1  # a mean is exact where every number is a multiple of the ranks
    room = exact_up_to(dtype) // unit
    high = min(room // min(ranks, max(room, 1)), 100) if rank < room else 0
    return unit * draw.integers(low * high, high + 1, PERIOD).astype(np.float64)


@dataclass(frozen=True)
class Data:
    """The inputs and expected outputs of one case. `count`: elements of the whole vector; `op` applies where it
    reduces."""

    collective: Collective
    ranks: int
    count: int
    dtype: np.dtype[Any]
    op: str = "sum"
    root: int = 0

    @property
    def blocks(self) -> int:
        """Blocks of the vector: one a rank in a blocked collective, otherwise 1."""
        return self.ranks if self.collective.blocked else 1

    def length(self, window: range) -> int:
        """Elements of a window of blocks."""
        return len(window) * (self.count // self.blocks)

    def held(self, rank: int) -> range:
        """The blocks that are `rank`'s input."""
        return self.collective.precondition(rank, self.ranks, self.blocks, self.root)

    def owed(self, rank: int) -> range:
        """The blocks that are `rank`'s output."""
        return self.collective.postcondition(rank, self.ranks, self.blocks, self.root)

    def array_bytes(self, rank: int) -> int:
        """Bytes of `rank`'s input and output, each an array of its own."""
        return self.dtype.itemsize * (self.length(self.held(rank)) + self.length(self.owed(rank)))

    def fill(self, x: Values, rank: int, iteration: int) -> None:
        """Writes `rank`'s input of that iteration into the flat array `x`."""
        for number, block in enumerate(self.held(rank)):
            for part, known in self._runs(x, number, block, iteration, self._tiled(rank)):
                part[:] = known

    def wrong(self, y: Values, rank: int, iteration: int) -> int:
        """The number of elements of `rank`'s output `y` that differ in any bit from the expected ones."""
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
        """Pieces of `x`'s block `number` beside what `tiled` gives for the whole vector's block `block`."""
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
        of_bool = {"sum": np.maximum, "prod": np.minimum} if self.dtype.kind == "b" else {}
        step = (_STEP | of_bool)[self.op]
        kind = bool if self.op in LOGICAL else np.int64 if self.op in BITWISE else np.float64
        tables = (table(rank, self.ranks, self.dtype, self.op).astype(kind) for rank in contributors)
        total = np.asarray(reduce(step, tables), np.float64)
        return total / len(contributors) if self.op == "avg" else total
