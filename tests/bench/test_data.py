"""The data a measurement is checked with: exact in every type, for every operation, however many ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ringtree.bench.data import TYPES, Data, datatype, exact_up_to, table
from ringtree.ir.collective import COLLECTIVES
from tests.runtime.reductions import KINDS, stated


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
            firsts = [inputs[: r + (name == "scan")] for r in range(n)]
            return [stated(data.dtype.name, data.op, rows) if rows else inputs[0][:0] for rows in firsts]
        total = stated(data.dtype.name, data.op, inputs)
        if name == "reduce_scatter":
            return np.split(total, n)
        return [total if name == "all_reduce" or r == data.root else total[:0] for r in range(n)]
    if name == "all_to_all":
        return [np.concatenate([np.split(x, n)[r] for x in inputs]) for r in range(n)]
    if name == "scatter":
        return np.split(inputs[data.root], n)
    whole = np.concatenate(inputs)
    return [whole if name != "gather" or r == data.root else whole[:0] for r in range(n)]


GROWING = ("sum", "prod", "avg")


@pytest.mark.parametrize(("dtype", "op"), [(d, o) for d, o in KINDS if d in TYPES])
def test_a_reduction_is_exact(dtype: str, op: str) -> None:
    for ranks in (1, 3, 300) if op in GROWING else (7,):
        data = Data(COLLECTIVES["all_reduce"], ranks, 100, datatype(dtype), op)
        assert data.wrong(outputs(data, 3)[0], 0, 3) == 0, ranks


@pytest.mark.parametrize("name", [c for c in COLLECTIVES if c != "barrier"])
def test_expected_results_are_those_of_the_collective(name: str) -> None:
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


def test_exchanged_chunks_are_wrong() -> None:
    data = Data(COLLECTIVES["all_gather"], 4, 4 * 4096, datatype("float32"))
    y = outputs(data, 0)[0]
    assert data.wrong(np.roll(y, 4096), 0, 0) > 12_000


@pytest.mark.parametrize("ranks", [2, 64, 1000])
@pytest.mark.parametrize("name", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "uint8"])
def test_every_partial_sum_is_representable(name: str, ranks: int) -> None:
    dtype = datatype(name)
    reach = sum(np.abs(table(r, ranks, dtype, "sum")).max() for r in range(ranks))
    assert 0 < reach <= exact_up_to(dtype)


@pytest.mark.parametrize(("op", "joined"), [("land", 0), ("lor", 1)])
def test_logical_results_are_neither_all_true_nor_all_false(op: str, joined: int) -> None:
    data = Data(COLLECTIVES["all_reduce"], 16, 2000, datatype("float32"), op)
    assert 200 < np.count_nonzero(outputs(data, 0)[0] == joined) < 1800


def test_types_have_nccl_tests_names_too() -> None:
    assert datatype("float") == np.float32 and datatype("double") == np.float64
    assert datatype("half") == np.float16 and datatype("f8e5m2").name == "float8_e5m2"
    with pytest.raises(ValueError, match=r"no datatype 'spam': expected bool, int8, .* or float8_e5m2$"):
        datatype("spam")
    with pytest.raises(ValueError, match=r"no datatype 'complex64': .*; there is no table of exact complex numbers"):
        datatype("complex64")
