"""One call, on every rank, compared with numpy. Runs inside the ranks: everything here is importable and picklable."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.collective import COLLECTIVES
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.reductions import DTYPES, KINDS, exact, stated

Values = NDArray[Any]

EPS = {"float32": 2.0**-23, "float64": 2.0**-52, "bfloat16": 2.0**-8}
"""Epsilon of types whose inputs are arbitrary, so that sums depend on the order a little; all others are exact."""
GUARD = 7
"""Elements before and after an output, which must not change."""


@dataclass(frozen=True)
class Case:
    """`count`: elements a rank passes in (of each block where the collective deals in blocks). `uneven`: by the form
    with a count for each block. `ordered`: in rank order at once, whatever the algorithm."""

    collective: str
    algorithm: str | None
    dtype: str
    op: str
    count: int
    in_place: bool
    root: int = 0
    async_op: bool = False
    symmetric: bool = False
    uneven: bool = False
    ordered: bool = False

    def __str__(self) -> str:
        place = "in" if self.in_place else "out"
        extra = f"{'-async' * self.async_op}{'-symmetric' * self.symmetric}"
        extra += f"{'-uneven' * self.uneven}{'-ordered' * self.ordered}"
        return f"{self.collective}-{self.algorithm}-{self.dtype}-{self.op}-{self.count}-{place}-root{self.root}{extra}"


def blocks(case: Case, ranks: int) -> NDArray[np.int64]:
    """Elements of each rank's block, or of what each rank (row) has for each (column). Every third is empty where they
    are uneven."""
    rank = np.arange(ranks)
    positions = np.add.outer(rank, 2 * rank) if COLLECTIVES[case.collective].transposes else rank
    return (
        np.where(positions % 3 == 1, 0, case.count + positions) if case.uneven else np.full_like(positions, case.count)
    )


def kinds(collective: str) -> list[tuple[str, str]]:
    """The types with the reductions that it has: a prefix has no average, for ranks reduce over different numbers of
    ranks. Where nothing is reduced, each type once."""
    promise = COLLECTIVES[collective]
    if not promise.reduces or promise.repeats:
        return [(dtype, "sum") for dtype in DTYPES]
    return [(dtype, op) for dtype, op in KINDS if op != "avg" or not promise.prefix]


def data(case: Case, rank: int, count: int) -> Values:
    """The input of `rank`: anything where the result may be rounded, else numbers whose result is exact."""
    return _data(case.dtype, case.op, case.root, rank, count)


@lru_cache(maxsize=16)
def _data(dtype: str, op: str, root: int, rank: int, count: int) -> Values:
    random = np.random.default_rng([rank, count, len(op), root])
    if not _rounded(dtype, op):
        return exact(dtype, op, random, count)
    scale = random.uniform(0.5, 1.5, count) if op == "prod" else random.normal(size=count) * 100
    return scale.astype(np.float64).astype(DTYPES[dtype])


def _rounded(dtype: str, op: str) -> bool:
    return dtype in EPS and op in ("sum", "prod", "avg")


def reduced(case: Case, ranks: int, count: int) -> tuple[Values, Values]:
    """The reduction of all ranks' data, and how far off a result may be: n * eps * sum|x| of the wire's type."""
    return _reduced(Case("all_reduce", None, case.dtype, case.op, 0, False, case.root), ranks, count)


@lru_cache(maxsize=4)
def _reduced(case: Case, ranks: int, count: int) -> tuple[Values, Values]:
    rows = [data(case, rank, count) for rank in range(ranks)]
    if not _rounded(case.dtype, case.op):
        return stated(case.dtype, case.op, rows), np.zeros(count)
    wide = np.stack(rows).astype(np.float64)
    right = wide.prod(axis=0) if case.op == "prod" else wide.sum(axis=0)
    size = np.abs(right) if case.op == "prod" else np.abs(wide).sum(axis=0)
    return right / ranks if case.op == "avg" else right, ranks * EPS[case.dtype] * size


def run(comm: Communicator, case: Case) -> None:
    """Makes the call on this rank and checks what it must leave behind, and what it must leave alone."""
    n, me, name = comm.size, comm.rank, case.collective
    promise, sizes = COLLECTIVES[name], blocks(case, comm.size)
    postcondition = promise.postcondition(me, n, n, case.root)
    want, slack = (
        _wanted(case, me, n, sizes) if len(postcondition) and name != "barrier" else (np.empty(0), np.empty(0))
    )
    if promise.transposes:
        windows = (0, int(sizes[me].sum())), (0, int(sizes[:, me].sum()))
    elif promise.blocked:
        precondition = promise.precondition(me, n, n, case.root)
        windows = tuple(
            (int(sizes[: w.start].sum()), int(sizes[w.start : w.stop].sum())) for w in (precondition, postcondition)
        )
    else:
        windows = tuple(
            (0, case.count if len(w) else 0) for w in (promise.precondition(me, n, n, case.root), postcondition)
        )
    (in_start, m_in), (out_start, m_out) = windows
    x, y = _buffers(comm, case, me, m_in, m_out, in_start, out_start)
    before = None if x is None else x.view(np.uint8).copy()
    given: dict[str, Any] = {"algorithm": case.algorithm, "async_op": case.async_op}
    if case.ordered:
        given["deterministic"] = "rank_order"
    result = _call(comm, case, x, y, given)
    if case.async_op:
        result = result.result()
    if not len(postcondition) or name == "barrier":
        assert result is None, f"{name} returned {type(result)} where the postcondition is empty"
    else:
        expect = y if y is not None else result
        assert isinstance(result, np.ndarray)
        assert y is None or result is y
        _compare(np.asarray(expect).reshape(-1), want, slack)
    if before is not None and x is not y and not case.in_place:
        assert x is not None
        assert np.array_equal(x.view(np.uint8), before), "the input was changed"
    if y is not None and y.base is not None and not case.symmetric:
        whole = y.base
        assert np.all(whole[:GUARD].view(np.uint8) == 1), "wrote before the output"
        assert np.all(whole[-GUARD:].view(np.uint8) == 1), "wrote after the output"


def _buffers(
    comm: Communicator, case: Case, rank: int, m_in: int, m_out: int, in_start: int, out_start: int
) -> tuple[Values | None, Values | None]:
    """Input and output: apart, with guards around the output, or as windows of one array at their own positions."""
    inward = data(case, rank, m_in)
    together = case.in_place or case.collective == "broadcast"
    low = min(in_start, out_start) if together else out_start
    high = max(in_start + m_in, out_start + m_out) if together else out_start + m_out
    whole = _new(comm, case, high - low + 2 * GUARD, "output")
    whole.view(np.uint8)[:] = 1

    def window(start: int, count: int) -> Values:
        return whole[start - low + GUARD : start - low + GUARD + count]

    y = window(out_start, m_out)
    x = window(in_start, m_in) if together else _new(comm, case, m_in, "input")
    x[:] = inward
    return (y, y) if m_in and case.collective == "broadcast" else (x, y)


def _new(comm: Communicator, case: Case, count: int, role: str) -> Values:
    dtype = DTYPES[case.dtype]
    if not case.symmetric:
        return np.empty(count, dtype)
    most = int(comm.all_reduce(count * dtype.itemsize, op="max"))
    mine = _symmetric.setdefault(comm, {})
    kept = mine.get(role)  # the ranks' arrays are of one size, so all keep or all make one
    if kept is None or kept.nbytes < most:
        kept = mine[role] = comm.empty(most // 8 + 1, np.float64)
    return kept.view(np.uint8)[: count * dtype.itemsize].view(dtype)


_symmetric: WeakKeyDictionary[Communicator, dict[str, Values]] = WeakKeyDictionary()


def _wanted(case: Case, rank: int, ranks: int, sizes: NDArray[np.int64]) -> tuple[Values, Values]:
    name = case.collective
    if name in ("all_reduce", "reduce"):
        return reduced(case, ranks, case.count)
    if name in ("scan", "exscan"):
        return reduced(case, rank + (name == "scan"), case.count)
    if name == "all_to_all":
        ends = sizes.cumsum(axis=1)
        sent = [data(case, r, int(sizes[r].sum())) for r in range(ranks)]
        want = np.concatenate([x[ends[r, rank] - sizes[r, rank] : ends[r, rank]] for r, x in enumerate(sent)])
        return want, np.zeros(len(want))
    start, total = int(sizes[:rank].sum()), int(sizes.sum())
    mine = slice(start, start + int(sizes[rank]))
    if name == "reduce_scatter":
        want, slack = reduced(case, ranks, total)
        return want[mine], slack[mine]
    if name in ("all_gather", "gather"):
        want = np.concatenate([data(case, r, int(sizes[r])) for r in range(ranks)])
    elif name == "broadcast":
        want = data(case, case.root, case.count)
    else:
        want = data(case, case.root, total)[mine]
    return want, np.zeros(len(want))


def _call(comm: Communicator, case: Case, x: Values | None, y: Values | None, given: dict[str, Any]) -> Any:
    name, root, here = case.collective, case.root, comm.rank == case.root
    if case.uneven:
        return _call_uneven(comm, case, x, y, given)
    if name == "barrier":
        return comm.barrier(**given)
    if name in ("all_reduce", "reduce_scatter", "scan", "exscan"):
        return getattr(comm, name)(x, op=case.op, out=y, **given)
    if name in ("all_gather", "all_to_all"):
        return getattr(comm, name)(x, out=y, **given)
    if name == "broadcast":
        return comm.broadcast(y, root, **given)
    if name == "reduce":
        return comm.reduce(x, op=case.op, root=root, out=y if here else None, **given)
    if name == "gather":
        return comm.gather(x, root, out=y if here else None, **given)
    return comm.scatter(x if here else None, root, out=y, **given)


def _call_uneven(comm: Communicator, case: Case, x: Values | None, y: Values | None, given: dict[str, Any]) -> Any:
    name, root, here = case.collective, case.root, comm.rank == case.root
    counts = blocks(case, comm.size)
    if name == "reduce_scatter":
        return comm.reduce_scatter_v(x, counts, case.op, out=y, **given)
    if name == "gather":
        return comm.gather_v(x, root, counts, out=y if here else None, **given)
    if name == "scatter":
        return comm.scatter_v(x if here else None, counts, root, out=y, **given)
    return getattr(comm, f"{name}_v")(x, counts, out=y, **given)


def _compare(got: Values, want: Values, slack: Values) -> None:
    assert got.shape == want.shape, f"{got.shape} elements, expected {want.shape}"
    if not slack.any():
        wrong = np.flatnonzero(got != want.astype(got.dtype))
    else:
        off = np.abs(got.astype(np.float64) - want.astype(np.float64))
        wrong = np.flatnonzero(~(off <= slack))
    if len(wrong):
        i = int(wrong[0])
        raise AssertionError(f"{len(wrong)} of {len(got)} elements differ; first [{i}]: {got[i]}, expected {want[i]}")


def sweep(comm: Communicator, cases: list[Case]) -> list[str]:
    """All of the cases in turn; what was wrong, if anything."""
    failures = []
    for case in cases:
        try:
            run(comm, case)
        except AssertionError as error:
            failures.append(f"{case}, rank {comm.rank} of {comm.size}: {error}")
    return failures
