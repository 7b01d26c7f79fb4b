"""The data a measurement is checked with: exact in every type, for every operation, however many ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ringtree.bench.data import Data, datatype, exact_up_to, table
from ringtree.ir.collective import COLLECTIVES

TYPES = ["int32", "int64", "float32", "float64", "bfloat16"]
OPS = {
    "sum": lambda stack: stack.sum(axis=0),
    "avg": lambda stack: stack.sum(axis=0) / len(stack),
    "prod": lambda stack: stack.prod(axis=0),
    "max": lambda stack: stack.max(axis=0),
    "min": lambda stack: stack.min(axis=0),
}


def outputs(data: Data, iteration: int) -> list[np.ndarray[Any, Any]]:
    """What numpy makes of the inputs of all ranks, by the definition of each collective."""
    n, inputs = data.ranks, []
    for rank in range(n):
        x = np.zeros(data.length(data.held(rank)), data.dtype)
        data.fill(x, rank, iteration)
        inputs.append(x)
    name = data.collective.name
    if data.collective.reduces:
        if name in ("scan", "exscan"):
            stacks = [np.stack(inputs[: r + (name == "scan")] or [inputs[0][:0]]).astype(np.float64) for r in range(n)]
            return [OPS[data.op](stack).astype(data.dtype) for stack in stacks]
        total = OPS[data.op](np.stack(inputs).astype(np.float64)).astype(data.dtype)
        if name == "reduce_scatter":
            return np.split(total, n)
        return [total if name == "all_reduce" or r == data.root else total[:0] for r in range(n)]
    if name == "all_to_all":
        return [np.concatenate([np.split(x, n)[r] for x in inputs]) for r in range(n)]
    if name == "scatter":
        return np.split(inputs[data.root], n)
    whole = np.concatenate(inputs)
    return [whole if name != "gather" or r == data.root else whole[:0] for r in range(n)]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("ranks", [1, 3, 16, 300])
def test_a_reduction_is_exact(dtype: str, op: str, ranks: int) -> None:
    data = Data(COLLECTIVES["all_reduce"], ranks, 2000, datatype(dtype), op)
    assert data.wrong(outputs(data, 3)[0], 0, 3) == 0


@pytest.mark.parametrize("name", [c for c in COLLECTIVES if c != "barrier"])
def test_what_is_expected_is_what_the_collective_means(name: str) -> None:
    data = Data(COLLECTIVES[name], 4, 4 * 25_000, datatype("float32"), root=2)
    for rank, y in enumerate(outputs(data, 7)):
        assert data.wrong(y, rank, 7) == 0


def test_one_wrong_bit_is_counted() -> None:
    data = Data(COLLECTIVES["all_reduce"], 3, 100_000, datatype("bfloat16"))
    y = outputs(data, 0)[0].copy()
    y.view(np.uint16)[70_000] ^= 1
    assert data.wrong(y, 0, 0) == 1


def test_last_iterations_result_is_wrong_in_this_one() -> None:
    data = Data(COLLECTIVES["all_reduce"], 2, 10_000, datatype("int32"))
    assert data.wrong(outputs(data, 1)[0], 0, 2) > 9_000


def test_chunks_in_each_others_places_are_wrong() -> None:
    data = Data(COLLECTIVES["all_gather"], 4, 4 * 4096, datatype("float32"))
    y = outputs(data, 0)[0]
    assert data.wrong(np.roll(y, 4096), 0, 0) > 12_000


@pytest.mark.parametrize("ranks", [2, 64, 1000])
def test_every_partial_sum_is_representable(ranks: int) -> None:
    dtype = datatype("bfloat16")
    reach = sum(np.abs(table(r, ranks, dtype, "sum")).max() for r in range(ranks))
    assert 0 < reach <= exact_up_to(dtype)


def test_types_have_nccl_tests_names_too() -> None:
    assert datatype("float") == np.float32 and datatype("double") == np.float64
    with pytest.raises(ValueError, match="no datatype 'complex64': expected int32"):
        datatype("complex64")
