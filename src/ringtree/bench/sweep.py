"""The cases of a measurement, by their sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ringtree.algorithms import exists, find, known, serving
from ringtree.bench.data import datatype
from ringtree.ir.collective import collective as find_collective
from ringtree.ir.schedule import Schedule
from ringtree.plan import prove_own
from ringtree.runtime.types import BY_LABEL, op_code


@dataclass(frozen=True, slots=True)
class SweepCase:
    """One line of a table. `count` is of the whole vector; `algorithm` a name, or "auto". `schedule`: one to run, in
    place of an algorithm, whose name is its own."""

    collective: str
    ranks: int
    count: int
    dtype: str
    op: str
    root: int
    algorithm: str
    schedule: Schedule | None = field(default=None, compare=False)

    @property
    def forced(self) -> str | Schedule | None:
        """The algorithm that the calls name: a schedule, a name, or none."""
        return self.schedule or (None if self.algorithm == "auto" else self.algorithm)

    @property
    def nbytes(self) -> int:
        """nccl-tests' size: the larger of a rank's input and output in bytes, that is the whole vector."""
        return self.count * datatype(self.dtype).itemsize

    @property
    def elements(self) -> int:
        """nccl-tests' count: elements of a rank's input (or of its output, where that is smaller)."""
        return self.count // self.ranks if find_collective(self.collective).blocked else self.count


def cases(
    collective: str, ranks: int, nbytes: Sequence[int], dtype: str, op: str, root: int, algorithm: str
) -> Iterator[SweepCase]:
    """The cases of one table. Sizes too small to differ from the one before, once cut into n blocks, are left out.
    ValueError: if `root` is no rank."""
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
            yield SweepCase(
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
) -> list[list[SweepCase]]:
    """The tables of a sweep: for each number of ranks one for each algorithm. "all": all that serve it. ValueError: if
    the algorithm or the operation does not serve the collective."""
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
            raise ValueError(f"{collective} has no avg: every rank reduces over a different number of ranks")
    return [list(cases(collective, n, nbytes, name, op, root, one)) for n in ranks for one in names]


def beside(schedule: Schedule, nbytes: Sequence[int], dtype: str, op: str, algorithm: str) -> list[list[SweepCase]]:
    """The one table of a schedule: at each size it, and beside it the algorithm (or all of them). ValueError as of
    `plan`."""
    s = schedule
    root = 0 if s.root is None else s.root
    tables = plan(s.collective, [s.ranks], nbytes, dtype, op, root, algorithm)
    own = [replace(case, algorithm=s.name, schedule=s) for case in tables[0]]
    return [[case for line in zip(own, *tables, strict=True) for case in line]]
