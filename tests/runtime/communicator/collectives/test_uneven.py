"""Uneven blocks: every collective by every algorithm equals numpy's for all counts, and moves only its blocks."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from ringtree import Mismatch, Poisoned, scaled, spawn
from ringtree.algorithms import serving
from ringtree.ir.program import Kind, Space
from ringtree.runtime.communicator.calls.binding import chunk_sizes
from ringtree.runtime.communicator.calls.plans import KEPT
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import in_threads
from tests.runtime.conftest import Pools

Act = Callable[[Communicator], Any]
Values = np.ndarray[Any, Any]


def layouts(n: int) -> list[list[int]]:
    """Counts with zeros at either end, in the middle and everywhere, alike ones, and one far longer than the rest."""
    return [
        [3] * n,
        list(range(n)),
        list(range(n, 0, -1)),
        [0] * n,
        [5 * (r == n - 1) for r in range(n)],
        [2 * (r % 2) for r in range(n)],
        [5000 if r == n // 2 else r for r in range(n)],
    ]


def block(rank: int, rows: int, dtype: Any = np.float32) -> Values:
    return (np.arange(rows * 3).reshape(rows, 3) % 100 + 1000 * rank).astype(dtype)


def expect(got: Any, want: Values | None, what: str) -> list[str]:
    if got is None or want is None:
        return [] if got is want is None else [f"{what}: {got} instead of {want}"]
    alike = got.shape == want.shape and got.dtype == want.dtype and np.array_equal(got, want)
    return [] if alike else [f"{what}: {got} instead of {want}"]


def gathers(comm: Communicator) -> list[str]:
    n, me, wrong = comm.size, comm.rank, []
    for counts in layouts(n):
        x, want = block(me, counts[me]), np.concatenate([block(r, counts[r]) for r in range(n)])
        start = sum(counts[:me])
        for name in (None, *serving("all_gather")):
            wrong += expect(comm.all_gather_v(x, counts, algorithm=name), want, f"all_gather_v {counts} by {name}")
            whole = np.zeros_like(want)
            own = whole[start : start + counts[me]]
            own[:] = x
            assert comm.all_gather_v(own, counts, out=whole, algorithm=name) is whole
            wrong += expect(whole, want, f"all_gather_v {counts} by {name} in place")
        wrong += expect(comm.all_gather_v(x), want, f"all_gather_v {counts} exchanged")
        wrong += expect(comm.all_gather_v(x, counts, async_op=True).result(), want, f"all_gather_v {counts} async")
        for root in {0, n - 1}:
            mine = want if me == root else None
            for name in (None, *serving("gather")):
                got = comm.gather_v(x, root, counts, algorithm=name)
                wrong += expect(got, mine, f"gather_v {counts} to {root} by {name}")
            wrong += expect(comm.gather_v(x, root), mine, f"gather_v {counts} to {root} exchanged")
    return wrong


def scatters(comm: Communicator) -> list[str]:
    n, me, wrong = comm.size, comm.rank, []
    for counts in layouts(n):
        start = sum(counts[:me])
        mine = slice(start, start + counts[me])
        for root in {0, n - 1}:
            x = block(root, sum(counts))
            for name in (None, *serving("scatter")):
                out = np.empty((counts[me], 3), np.float32)
                given = (x, counts) if me == root else (None, None)
                assert comm.scatter_v(*given, root, out=out, algorithm=name) is out
                wrong += expect(out, x[mine], f"scatter_v {counts} from {root} by {name}")
        x = block(me, sum(counts), np.int64)
        want = reduce(np.add, [block(r, sum(counts), np.int64) for r in range(n)])[mine]
        for name in (None, *serving("reduce_scatter")):
            got = comm.reduce_scatter_v(x, counts, algorithm=name)
            wrong += expect(got, want, f"reduce_scatter_v {counts} by {name}")
            whole = x.copy()
            comm.reduce_scatter_v(whole, counts, out=whole[mine], algorithm=name)
            wrong += expect(whole[mine], want, f"reduce_scatter_v {counts} by {name} in place")
        wrong += expect(comm.reduce_scatter_v(x, counts, np.add), want, f"reduce_scatter_v {counts} by a function")
        wrong += expect(comm.reduce_scatter_v(x, counts, scaled(2)), 2 * want, f"reduce_scatter_v {counts} scaled")
    return wrong


def trades(comm: Communicator) -> list[str]:
    n, me, wrong = comm.size, comm.rank, []
    for seed in range(6):
        random = np.random.default_rng([seed, n])
        matrix = random.integers(0, 5, (n, n)) * random.integers(0, 2, (n, n))
        if seed == 5:
            matrix[n - 1, 0] = 9000
        rows = [block(s, int(matrix[s].sum()), np.float64) for s in range(n)]
        ends = matrix.cumsum(axis=1)
        want = np.concatenate([rows[s][ends[s, me] - matrix[s, me] : ends[s, me]] for s in range(n)])
        for name in (None, *serving("all_to_all")):
            for counts in (matrix, matrix[me]):
                got = comm.all_to_all_v(rows[me], counts, algorithm=name, out_counts=matrix[:, me])
                wrong += expect(got, want, f"all_to_all_v {matrix.tolist()} by {name}")
        out = np.empty_like(want)
        assert comm.all_to_all_v(rows[me], matrix.tolist(), out=out, async_op=True).result() is out
        wrong += expect(out, want, f"all_to_all_v {matrix.tolist()} async")
        if matrix[me].sum() == matrix[:, me].sum():  # in place as numpy would: as if through a copy
            both = rows[me].copy()
            wrong += expect(comm.all_to_all_v(both, matrix, out=both), want, "all_to_all_v in place")
        else:
            comm.all_to_all_v(rows[me], matrix)
    return wrong


@pytest.mark.parametrize("act", [gathers, scatters, trades])
@pytest.mark.parametrize("ranks", [1, 3, *(pytest.param(ranks, marks=pytest.mark.slow) for ranks in (2, 5))])
def test_uneven_blocks_equal_numpys(pools: Pools, engine: str, ranks: int, act: Act) -> None:
    if in_threads(engine) and ranks not in (1, 3):
        pytest.skip(f"the {engine} engine is slow: 1 and 3 ranks cover the same")
    for wrong in pools(engine, ranks).run(act):
        assert not wrong, "\n".join(wrong[:5])


def kinds(comm: Communicator) -> None:
    n, me = comm.size, comm.rank
    counts = [r + 1 for r in range(n)]
    for dtype in (np.int32, np.float64, bfloat16, np.uint8, np.bool_):
        x = np.ones(me + 1, dtype)
        assert comm.all_gather_v(x, counts).dtype == x.dtype
        assert len(comm.all_gather_v(x)) == sum(counts)
    assert comm.all_gather_v(np.full(me, me)).tolist() == [r for r in range(n) for _ in range(r)]
    assert comm.all_gather_v(np.ones((me, 2, 3))).shape == (sum(range(n)), 2, 3)
    assert comm.all_gather_v(np.ones((2, me + 1)).T).shape == (sum(counts), 2)


def tensors(comm: Communicator) -> None:
    import torch

    n, me = comm.size, comm.rank
    got = comm.all_gather_v(torch.full((me, 2), float(me), dtype=torch.bfloat16))
    assert isinstance(got, torch.Tensor)
    assert got.shape == (sum(range(n)), 2)
    assert got.dtype == torch.bfloat16


def test_any_kind_of_array(pools: Pools, engine: str) -> None:
    pools(engine, 3).run(kinds)


@pytest.mark.torch
def test_tensors(pools: Pools, engine: str) -> None:
    pools(engine, 3).run(tensors)


def moved(comm: Communicator, collective: str, algorithm: str) -> tuple[list[int], list[int]]:
    """Bytes received from each rank: counted, and by the program and the sizes of its chunks."""
    n, me = comm.size, comm.rank
    counts = np.array([7 * r for r in range(n)])
    matrix = np.add.outer(3 * np.arange(n), 5 * np.arange(n))
    even = comm.chosen(collective, 10 * n, np.int64, algorithm=algorithm).part.program
    comm.barrier()
    comm.reset_counters()
    if collective == "all_gather":
        comm.all_gather_v(np.ones(counts[me], np.int64), counts, algorithm=algorithm)
    elif collective == "reduce_scatter":
        comm.reduce_scatter_v(np.ones(counts.sum(), np.int64), counts, algorithm=algorithm)
    else:
        counts = matrix
        comm.all_to_all_v(np.ones(matrix[me].sum(), np.int64), matrix, algorithm=algorithm)
    counted = comm.counters()[:, 0].tolist()
    sizes, want, held = chunk_sizes(even, int(counts.sum()), counts), [0] * n, {}
    for i in even.instructions:
        if i.kind is Kind.WAIT:
            held[i.register] = i.peer
        for o in i.sources:
            if o.space is Space.MESSAGE and o.index in held:
                want[held.pop(o.index)] += int(sizes[o.label : o.label + o.count].sum()) * 8
    return counted, want


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_to_all"])
def test_bytes_are_the_programs(pools: Pools, engine: str, collective: str) -> None:
    for algorithm in serving(collective):
        for counted, want in pools(engine, 3 if in_threads(engine) else 5).run(moved, collective, algorithm):
            assert counted == want, algorithm


X = np.ones((2, 3), np.float32)

MISTAKES: dict[str, tuple[Act, type[Exception], str]] = {
    "length": (
        lambda c: c.all_gather_v(X, [2]),
        ValueError,
        "counts has shape (1,); expected (3,), rows for each rank",
    ),
    "negative": (lambda c: c.all_gather_v(X, [2, -1, 2]), ValueError, "expected numbers from 0"),
    "too many": (lambda c: c.all_gather_v(X, np.full(3, 1 << 63, np.uint64)), ValueError, "of less than 64 bits"),
    "half": (lambda c: c.all_gather_v(X, [2, 2, 1.5]), TypeError, "expected whole numbers"),
    "own": (
        lambda c: c.all_gather_v(X, [1, 1, 1]),
        ValueError,
        "x has 2 rows; expected 1, counts of rank",
    ),
    "number": (lambda c: c.all_gather_v(3.0), ValueError, "x is a single number; expected an array with rows"),
    "sum": (lambda c: c.reduce_scatter_v(X, [1, 1, 1]), ValueError, "x has 2 rows; expected 3, the sum of counts"),
    "none": (lambda c: c.reduce_scatter_v(X, None), ValueError, "counts has shape ()"),
    "sent": (lambda c: c.all_to_all_v(X, np.ones((3, 3), int)), ValueError, "x has 2 rows; expected 3"),
    "matrix": (lambda c: c.all_to_all_v(X, np.ones((2, 3), int)), ValueError, "expected (3,) or (3, 3)"),
    "out": (lambda c: c.all_gather_v(X, [2, 2, 2], out=X.copy()), ValueError, "out has 6 elements; expected 18"),
    "root": (lambda c: c.gather_v(X, 3, [2, 2, 2]), ValueError, "root 3: expected a rank of this group"),
    "scatter": (lambda c: c.scatter_v(None, None, c.rank), ValueError, "scatter_v needs x and counts on the root"),
    "scatter out": (lambda c: c.scatter_v(X, None, (c.rank + 1) % 3), ValueError, "scatter_v needs out on rank"),
    "widths": (
        lambda c: c.all_gather_v(X[:, : 1 + c.rank]),
        Mismatch,
        "a row has 1 elements on rank 0 and 2 on rank 1",
    ),
    "expected": (
        lambda c: c.all_to_all_v(X, [1, 1, 0], out_counts=[2, 2, 2] if c.rank == 0 else None),
        Mismatch,
        "rank 0 sends rank 0 1 rows, and rank 0 expects 2",
    ),
}


def mistakes(comm: Communicator) -> list[str]:
    wrong = []
    for name, (act, kind, expected) in MISTAKES.items():
        try:
            act(comm)
            wrong.append(f"{name}: no error")
        except (TypeError, ValueError, Mismatch) as error:
            if type(error) is not kind or expected not in str(error):
                wrong.append(f"{name}: {type(error).__name__}: {error}")
    assert comm.all_reduce(1) == comm.size
    return wrong


def test_mistakes_are_one_clear_line_and_harm_nothing(pools: Pools, engine: str) -> None:
    for wrong in pools(engine, 3).run(mistakes):
        assert not wrong, "\n".join(wrong)


def at_odds(comm: Communicator, how: str) -> str:
    wrong = 1 if comm.rank == 1 else 0
    try:
        if how == "scatter":
            given = (np.ones(3), [1, 2]) if comm.rank == 0 else (None, None)
            comm.scatter_v(*given, out=np.empty(1 + comm.rank + wrong))
        elif how == "counts":
            given = (np.ones(3), [1, 2]) if comm.rank == 0 else (None, np.array([2, 1]))
            comm.scatter_v(*given, out=np.empty(1 + comm.rank))
        else:
            comm.all_to_all_v(np.ones(2), np.ones((2, 2), int), out_counts=[1, 1 + wrong])
        comm.barrier()
    except (Mismatch, Poisoned) as error:
        return f"{type(error).__name__}: {error}"
    return "went on"


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("scatter", "out has 3 elements on rank 1; rank 0 sends 2 rows of 1 elements"),
        ("counts", "counts are [2, 1] on rank 1; rank 0 sends 2 rows of 1 elements"),
        ("trade", "rank 1 sends rank 1 1 rows, and rank 1 expects 2"),
    ],
)
def test_an_error_of_one_rank_reaches_the_others(engine: str, how: str, expected: str) -> None:
    other, seen = spawn(at_odds, 2, how, engine=engine, threads=in_threads(engine))
    assert seen == f"Mismatch: {expected}"
    assert other.startswith("Poisoned: ")
    assert expected in other


def counted_otherwise(comm: Communicator) -> str:
    counts = np.ones((2, 2), int) + (np.eye(2, dtype=int)[:, ::-1] if comm.rank else np.eye(2, dtype=int))
    with pytest.raises((Mismatch, Poisoned)) as raised:
        comm.all_to_all_v(np.ones(3), counts)
        comm.barrier()
    return str(raised.value)


def test_counts_come_first_among_the_causes_where_calls_look_alike() -> None:
    messages = spawn(counted_otherwise, 2)
    assert any("call 1, with other counts (of a call such as all_to_all_v)" in text for text in messages), messages


def ever_new(comm: Communicator) -> int:
    first = comm.chosen("all_reduce", 1, np.int8).plan
    for length in range(2, KEPT + 50):
        x = np.ones(length, np.int8)
        assert comm.all_reduce(x, "max").sum() == length
        assert len(comm.all_gather_v(x[: 1 + comm.rank], np.arange(comm.size) + 1)) == 3
    assert comm.all_reduce(np.ones(3, np.int8)).sum() == 3 * comm.size
    with pytest.raises(ValueError, match=f"plan {first} was forgotten"):
        comm._endpoint.run(first, 0, 0)
    return len(comm._calls.plans)


def test_ever_new_lengths_do_not_pile_up(pools: Pools) -> None:
    assert pools("shm", 2).run(ever_new) == [KEPT] * 2
