"""What to measure: sizes as nccl-tests names them, and the cases they make."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ringtree.bench.data import datatype
from ringtree.ir.collective import collective as find_collective
from ringtree.runtime.types import BY_LABEL, op_code

MOST_BYTES = 1 << 50
"""Of a size: a thousand ranks' of it are still counted in 64 bits."""
LEAST_FACTOR = 1.001
"""From one size to the next: a smaller one's list would not end."""


@dataclass(frozen=True, slots=True)
class Case:
    """One line of a table. `count` is of the whole vector; `algorithm` a name, or "auto"."""

    collective: str
    ranks: int
    count: int
    dtype: str
    op: str
    root: int
    algorithm: str

    @property
    def nbytes(self) -> int:
        """nccl-tests' size: the larger of what a rank gives and what it gets, that is the whole vector."""
        return self.count * datatype(self.dtype).itemsize

    @property
    def elements(self) -> int:
        """nccl-tests' count: elements a rank gives (or gets, where that is the smaller)."""
        return self.count // self.ranks if find_collective(self.collective).blocked else self.count


def parse_bytes(text: str) -> int:
    """`8`, `4K`, `64M`, `1G`: binary units, as nccl-tests reads them."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGkmg]?)(?:i?[Bb])?", text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a size: expected a number of bytes such as 8, 64K, 16M or 1G")
    nbytes = float(match[1]) * 1024 ** " KMG".index(match[2].upper() or " ")
    if nbytes > MOST_BYTES:
        raise ValueError(f"{text[:40]!r}: {nbytes:.3g} bytes; expected at most {MOST_BYTES}")
    return int(nbytes)


def sizes(first: int, last: int, *, factor: float | None = None, step: int | None = None) -> list[int]:
    """Bytes from `first` to `last`, each `factor` times or `step` more than the one before."""
    if first < 1 or last < first:
        raise ValueError(f"sizes from {first} to {last} bytes: expected -b of at least 1 and -e not below it")
    if factor is not None and step is not None:
        raise ValueError("-f and -i together: expected a factor or a step, not both")
    if factor is not None and not LEAST_FACTOR <= factor <= MOST_BYTES:
        raise ValueError(f"-f {factor:g}: expected a factor over 1, from {LEAST_FACTOR} to {MOST_BYTES}")
    if step is not None and step < 1:
        raise ValueError(f"-i {step}: expected a step of at least 1 byte")
    found = [first]
    while True:
        after = found[-1] + step if step is not None else int(found[-1] * (factor or 2))
        after = max(after, found[-1] + 1)
        if after > last:
            return found
        found.append(after)


def cases(
    collective: str, ranks: int, nbytes: Sequence[int], dtype: str, op: str, root: int, algorithm: str
) -> Iterator[Case]:
    """The cases of one table. Sizes too small to differ from the one before, once cut into n blocks, are left out."""
    promise = find_collective(collective)
    itemsize = datatype(dtype).itemsize
    if promise.rooted and not 0 <= root < ranks:
        raise ValueError(f"root {root}: expected one of the {ranks} ranks, 0..{ranks - 1}")
    before = None
    for size in [0] if promise.repeats else nbytes:
        count = max(size // itemsize, 1)
        if promise.blocked:
            count = max(count // ranks, 1) * ranks
        if promise.repeats:
            count = 0
        if count != before:
            yield Case(
                collective,
                ranks,
                count,
                dtype,
                op if promise.reduces and not promise.repeats else "none",
                root if promise.rooted else -1,
                algorithm,
            )
        before = count


def plan(
    collective: str, ranks: Sequence[int], nbytes: Sequence[int], dtype: str, op: str, root: int, algorithm: str
) -> list[list[Case]]:
    """The tables of a sweep: for each number of ranks one for each algorithm. "all": all that serve it."""
    from ringtree.algorithms import exists, find, known, serving
    from ringtree.plan import prove_own

    find_collective(collective)
    if algorithm == "all":
        names = serving(collective)
    elif algorithm == "auto":
        names = ["auto"]
    else:
        if not exists(algorithm):
            expected = f"{', '.join(known())}, or FILE.py:FUNCTION"
            raise ValueError(f"no algorithm {algorithm!r}: expected auto, all or one of {expected}")
        if collective not in find(algorithm).serves:
            others = ", ".join(serving(collective))
            raise ValueError(f"{algorithm} does not serve {collective}: expected auto, all or one of {others}")
        for n in ranks:
            prove_own(algorithm, collective, n, root if find_collective(collective).rooted else None)
        names = [algorithm]
    name = datatype(dtype).name
    promise = find_collective(collective)
    if promise.reduces and not promise.repeats:
        try:
            op_code(op, BY_LABEL[name])
        except TypeError as refusal:
            raise ValueError(str(refusal)) from None
        if op == "avg" and promise.prefix:
            raise ValueError(f"{collective} has no avg: each rank reduces over another number of ranks")
    return [list(cases(collective, n, nbytes, name, op, root, one)) for n in ranks for one in names]
