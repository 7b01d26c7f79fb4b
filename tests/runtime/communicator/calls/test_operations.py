"""Reductions by a Python function and scaled sums: order, shapes, and failing functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from ringtree import Mismatch, Op, Poisoned, scaled, spawn
from ringtree.algorithms import build, serving
from ringtree.runtime.arrays import readable
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import in_threads
from tests.runtime.conftest import Pools

Act = Callable[[Communicator], Any]


def matrices(comm: Communicator, k: int = 4) -> list[np.ndarray[Any, Any]]:
    return [np.random.default_rng([7, rank]).integers(-2, 3, (k, k)) for rank in range(comm.size)]


def products(comm: Communicator) -> None:
    """Matrix products, which keep the shape and do not commute."""
    every = matrices(comm)
    x, want = every[comm.rank].copy(), reduce(np.matmul, every)
    for name in (None, "one_shot", "locality_tree", "parameter_server"):
        assert np.array_equal(comm.all_reduce(x, np.matmul, algorithm=name), want), name
    assert np.array_equal(x, every[comm.rank])
    for root in {0, comm.size // 2, comm.size - 1}:
        got = comm.reduce(x, Op(np.matmul), root)
        assert np.array_equal(got, want) if comm.rank == root else got is None
    if comm.size > 1:
        got = comm.reduce(x, np.matmul, algorithm="binomial")
        assert np.array_equal(got, want) if comm.rank == 0 else got is None
    blocks = np.stack([np.roll(x, s) for s in range(comm.size)])
    one = reduce(np.matmul, [np.roll(m, comm.rank) for m in every])
    got = comm.reduce_scatter(blocks, lambda a, b: (a[0] @ b[0])[None])
    assert np.array_equal(got, one[None])
    for _ in range(2):
        assert np.array_equal(comm.scan(x, np.matmul), reduce(np.matmul, every[: comm.rank + 1]))
        before = comm.exscan(x, np.matmul)
        assert np.array_equal(before, reduce(np.matmul, every[: comm.rank])) if comm.rank else before is None
    assert comm.all_reduce(x, np.matmul, out=x) is x
    assert np.array_equal(x, want)


def texts(comm: Communicator) -> None:
    """Numbers as texts of decimal digits: joined in rank order or wrong."""
    want = int("".join(str(r + 1) for r in range(comm.size)))
    join = Op(lambda a, b: a * 10 ** np.vectorize(lambda v: len(str(v)))(b) + b, name="join")
    assert comm.all_reduce(comm.rank + 1, join) == want
    assert comm.all_reduce([comm.rank + 1] * 2, join).tolist() == [want, want]


def kinds(comm: Communicator) -> None:
    n = comm.size
    for dtype in (np.int32, np.float64, bfloat16):
        x = np.full((2, 3), comm.rank, dtype)
        got = comm.all_reduce(x, lambda a, b: a + b)
        assert got.dtype == x.dtype
        assert (got.astype(float) == n * (n - 1) / 2).all()
    assert comm.all_reduce(np.empty((0, 3)), np.add).shape == (0, 3)
    assert comm.all_reduce(np.ones((3, 2)).T, np.add).tolist() == [[n] * 3] * 2
    assert np.array_equal(comm.all_reduce(np.arange(200_000.0), np.maximum), np.arange(200_000.0))
    any_order = Op(np.add, commutative=True)
    assert (comm.all_reduce(np.ones(5), any_order, algorithm="recursive_doubling") == n).all()
    assert (comm.all_reduce(np.ones(5), np.add) == comm.all_reduce(np.ones(5))).all()


def sums(comm: Communicator) -> None:
    """Every rank's factor is its own."""
    n, me = comm.size, comm.rank
    x = np.arange(6.0).reshape(2, 3)
    for dtype in (np.float32, np.float64, np.int32, np.int64, bfloat16):
        got = comm.all_reduce(x.astype(dtype), scaled(me + 1))
        assert got.dtype == dtype
        assert np.array_equal(got.astype(float), x * (n * (n + 1) / 2))
    y = x.copy()
    assert comm.all_reduce(y, scaled(0.5), out=y) is y
    assert np.array_equal(y, x * 0.5 * n)
    assert comm.all_reduce(2.0, scaled(np.float32(0.25)), async_op=True).result() == 0.5 * n
    third = np.ones(4, bfloat16)  # the product is rounded to the type once, by way of float32
    want = float(bfloat16(np.float32(1) * np.float32(1 / 3)))
    assert float(comm.all_reduce(third, scaled(1 / 3 if me == 0 else 0))[0]) == want


def raw(comm: Communicator) -> None:
    """Bits of bfloat16 in a uint16 array, by `dtype`, beside a uint16 array of numbers."""
    n = comm.size
    x = np.full(2 * n, 1.5, bfloat16).view(np.uint16)
    numbers = np.full(2 * n, 3, np.uint16)
    for _ in range(3):
        assert (comm.all_reduce(numbers) == 3 * n).all()
        for got in (comm.all_reduce(x, dtype="bfloat16"), comm.all_reduce(x, dtype=bfloat16, algorithm="ring")):
            assert got.dtype == np.uint16
            assert (got.view(bfloat16) == 1.5 * n).all()
        assert (comm.reduce_scatter(x, dtype="bfloat16").view(bfloat16) == 1.5 * n).all()
        assert (comm.scan(x, "max", dtype="bfloat16", out=np.empty_like(x)) == x).all()
        got = comm.reduce(x, dtype="bfloat16", root=n - 1)
        assert got is None or (got.view(bfloat16) == 1.5 * n).all()
    assert (comm.all_reduce(x, scaled(2), dtype="bfloat16").view(bfloat16) == 3 * n).all()
    out = np.empty_like(x)
    assert comm.all_reduce(x, np.add, dtype="bfloat16", out=out) is out
    assert (out.view(bfloat16) == 1.5 * n).all()
    assert comm.chosen("all_reduce", 2 * n, "bfloat16").plan == comm.chosen("all_reduce", 2 * n, bfloat16).plan


@pytest.mark.torch
def test_a_factor_fits_a_tensor_as_it_does_an_array() -> None:
    import torch

    with pytest.raises(ValueError, match=r"scaled\(300\): the factor does not fit int8"):
        scaled(300).apply(readable(torch.ones(2, dtype=torch.int8)))
    assert scaled(3).apply(readable(torch.ones(2, dtype=torch.int8))).owner.tolist() == [3, 3]


@pytest.mark.parametrize("act", [products, texts, kinds, sums, raw])
def test_a_function_joins_in_rank_order(pools: Pools, engine: str, act: Act) -> None:
    for ranks in (1, 2, 5):
        pools(engine, ranks).run(act)


@pytest.mark.slow
def test_products_over_every_number_of_ranks(pools: Pools) -> None:
    for ranks in range(1, 9):
        pools("shm", ranks).run(products)


def every_algorithm(comm: Communicator) -> list[str]:
    """The algorithms declared to keep the order keep it, and the others refuse."""
    refused = []
    every = matrices(comm)
    for name in serving("all_reduce"):
        try:
            got = comm.all_reduce(every[comm.rank], np.matmul, algorithm=name)
            assert np.array_equal(got, reduce(np.matmul, every)), name
        except ValueError as error:
            assert "expected" in str(error)
            refused.append(name)
    return refused


def test_algorithms_keep_the_order_or_refuse(pools: Pools) -> None:
    for refused in pools("shm", 6).run(every_algorithm):
        assert {"ring", "two_shot", "recursive_doubling"} <= set(refused)
        assert not {"one_shot", "locality_tree", "parameter_server"} & set(refused)


def renamed(comm: Communicator) -> None:
    """A schedule by a trusted name is judged by what it does."""
    schedule = replace(build("recursive_doubling", "all_reduce", comm.size), name="one_shot")
    with pytest.raises(ValueError, match="one_shot does not join all_reduce in rank order"):
        comm.all_reduce(np.ones(2), np.subtract, algorithm=schedule)
    with pytest.raises(ValueError, match="one_shot does not reduce all_reduce in rank order at once"):
        comm.all_reduce(np.ones(2), algorithm=schedule, deterministic="rank_order")


def test_a_schedules_name_vouches_for_nothing(pools: Pools, engine: str) -> None:
    pools(engine, 4).run(renamed)


MISTAKES: dict[str, tuple[Act, type[Exception], str]] = {
    "chunks": (lambda c: c.all_reduce([1], np.add, algorithm="ring"), ValueError, "ring cuts x into 3 pieces and add"),
    "order": (
        lambda c: c.all_reduce([1], np.add, algorithm="recursive_doubling"),
        ValueError,
        "recursive_doubling does not join all_reduce in rank order",
    ),
    "async": (lambda c: c.all_reduce([1], np.add, async_op=True), ValueError, "runs in this call"),
    "of one array": (
        lambda c: c.all_reduce([1.0, 2.0], sum),
        TypeError,
        "got 'sum' as an operation, a function of one",
    ),
    "built-in max": (
        lambda c: c.all_reduce([1.0, 2.0], max),
        TypeError,
        "got 'max' as an operation, a function of one",
    ),
    "built-in all": (
        lambda c: c.all_reduce([True], Op(all)),
        TypeError,
        "got 'all' as an operation, a function of one",
    ),
    "of one numpy array": (
        lambda c: c.reduce([1], np.prod),
        TypeError,
        "got 'prod' as an operation, a function of one",
    ),
    "no function": (lambda c: c.all_reduce([1], Op("sum")), TypeError, "got str as an operation"),  # type: ignore[arg-type]
    "half": (lambda c: c.all_reduce([1], scaled(0.5)), TypeError, "scaled(0.5) of int64: expected a whole number"),
    "complex": (lambda c: c.all_reduce([1.0], scaled(1j)), TypeError, "scaled(1j) of float64: expected a real number"),
    "too big": (
        lambda c: c.all_reduce(np.ones(1, np.int32), scaled(1 << 40)),
        ValueError,
        "the factor does not fit int32",
    ),
}


def mistakes(comm: Communicator) -> list[str]:
    wrong = []
    for name, (act, kind, expected) in MISTAKES.items():
        try:
            act(comm)
            wrong.append(f"{name}: no error")
        except (TypeError, ValueError) as error:
            if type(error) is not kind or expected not in str(error):
                wrong.append(f"{name}: {type(error).__name__}: {error}")
    assert comm.all_reduce(1) == comm.size
    return wrong


def test_mistakes_raise_before_anything_is_sent(pools: Pools, engine: str) -> None:
    for wrong in pools(engine, 3).run(mistakes):
        assert not wrong, "\n".join(wrong)


def failing(comm: Communicator, how: str) -> str:
    def function(a: Any, b: Any) -> Any:
        if comm.rank != 1:
            return a + b
        if how == "raises":
            raise KeyError("spam")
        if how == "changes":
            a += b
        if how == "words":
            return (a + b).astype(str)
        return {"shape": (a + b)[:1], "dtype": (a + b).astype(np.float32), "changes": a, "nothing": None}[how]

    try:
        for _ in range(2):
            comm.all_reduce(np.ones(4), function, algorithm="parameter_server" if how == "none" else "one_shot")
            comm.barrier()
    except Exception as error:  # noqa: BLE001  # whatever it is is what is looked at
        raised = f"{type(error).__name__}: {error}"
    try:
        comm.barrier()
        return raised + " BUT GOES ON"
    except Poisoned:
        return raised


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("raises", "KeyError: 'spam'"),
        ("shape", "TypeError: the operation function returned a ndarray of float64 and shape (1,); expected"),
        ("dtype", "TypeError: the operation function returned a ndarray of float32 and shape (4,); expected"),
        ("words", "TypeError: the operation function returned a ndarray that cannot be sent: element type <U32 is not"),
        ("nothing", "TypeError: the operation function returned None; expected the joined array"),
        ("changes", "ValueError: output array is read-only"),
    ],
)
def test_a_function_that_fails_is_heard_of_everywhere(engine: str, how: str, expected: str) -> None:
    answers = spawn(failing, 3, how, engine=engine, threads=in_threads(engine))
    assert answers[1].startswith(expected)
    for answer in (answers[0], answers[2]):
        assert answer.count("the operation function failed on rank 1: ") == 1
    assert not any("GOES ON" in a for a in answers)


AT_ODDS: dict[str, tuple[Act, Act, str]] = {
    "a name": (lambda c: c.all_reduce(X, np.add), lambda c: c.all_reduce(X), "all_reduce(float64, sum, count 6)"),
    "a collective": (lambda c: c.scan(X, np.add), lambda c: c.exscan(X, np.add), "exscan(float64, count 6)"),
    "a root": (lambda c: c.reduce(X, np.add), lambda c: c.reduce(X, np.add, 1), "reduce(float64, count 6, root 1)"),
    "a count": (lambda c: c.scan(X, np.add), lambda c: c.scan(X[1:], np.add), "scan(float64, count 5)"),
    "an algorithm": (
        lambda c: c.all_reduce(X, np.add, algorithm="one_shot"),
        lambda c: c.all_reduce(X, np.add, algorithm="parameter_server"),
        "all_reduce(float64, count 6)",
    ),
    "blocks": (
        lambda c: c.reduce_scatter_v(X, [1, 2, 3], np.add),
        lambda c: c.reduce_scatter_v(X, [2, 1, 3], np.add),
        "reduce_scatter(float64, count 6)",
    ),
}
"""Calls with a function of two ranks and the different call of a third; and how the error names that call."""
X = np.arange(6.0)


def at_odds(comm: Communicator, what: str) -> str:
    usual, other, _ = AT_ODDS[what]
    try:
        (other if comm.rank == 1 else usual)(comm)
    except Mismatch as error:
        return str(error)
    return "nothing"


@pytest.mark.parametrize("what", AT_ODDS)
def test_a_different_call_is_named_before_a_function_is_called(engine: str, what: str) -> None:
    for message in spawn(at_odds, 3, what, engine=engine, threads=in_threads(engine)):
        assert re.search(rf"rank 1( called)? {re.escape(AT_ODDS[what][2])}", message), message
