"""Every type with every reduction: the native kernels and the reference engine's against numpy, at odd offsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from ringtree import _native
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.runtime.engines.reference.kernel import STORED, finish, reduce
from ringtree.runtime.types import LOGICAL, OPS, Dtype, supported
from tests.runtime.engines import native_world as nw
from tests.runtime.reductions import DTYPES, KINDS, anything, stated

FLOAT8 = {"float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2}
LENGTHS = (0, 1, 2, 3, 7, 17, 64, 1000, 4099)


@pytest.fixture(scope="module")
def alone() -> Iterator[_native.Group]:
    with nw.segment(1) as fd:
        group = nw.endpoint(fd, 0, 1)
        yield group
        group.close()


def natively(
    group: _native.Group, label: str, op: str, rows: list[NDArray[Any]], start: int = 0, targets: int = 1
) -> NDArray[Any]:
    """One reduction of the rows, which lie `start` elements from an even offset and from each other."""
    count, n = len(rows[0]), len(rows)
    pitch = count + start
    whole = np.zeros(n * pitch + start, rows[0].dtype)
    for k, row in enumerate(rows):
        whole[start + k * pitch :][:count] = row
    out = np.zeros((targets + 1) * pitch, rows[0].dtype)
    step = Instruction(
        Kind.REDUCE,
        tuple(Operand(Space.OUTPUT, k, 0) for k in range(targets)),
        tuple(Operand(Space.INPUT, k, 0) for k in range(n)),
    )
    program = Program("reduce", "all_reduce", 0, 1, n, ((step,),))
    sizes = np.full(n, count, np.int64)
    offsets = np.arange(n, dtype=np.int64) * pitch
    plan = group.prepare(
        *program.encode(), sizes, offsets + start, offsets[:targets] + start, 0, 0,
        Dtype[label.upper()], OPS[op], "all_reduce", -1, count, 1,
    )  # fmt: skip
    group.run(plan, whole.ctypes.data, out.ctypes.data)
    results = [out[start + k * pitch :][:count] for k in range(targets)]
    assert all(r.tobytes() == results[0].tobytes() for r in results)
    assert not out.view(np.uint8)[: start * out.itemsize].any()
    assert not out.view(np.uint8)[(start + (targets - 1) * pitch + count) * out.itemsize :].any()
    group.forget(plan)
    return results[0]


def same(got: NDArray[Any], want: NDArray[Any]) -> bool:
    """Alike to the bit, but for which NaN it is, and which zero of two that were compared."""
    if got.dtype.names:
        return all(same(got[name], want[name]) for name in got.dtype.names)
    if got.dtype.kind == "c":
        return same(got.view(got.real.dtype), want.view(want.real.dtype))
    return got.dtype == want.dtype and bool(((got == want) | ((got != got) & (want != want))).all())


def rows_of(label: str, op: str, count: int, n: int) -> list[NDArray[Any]]:
    random = np.random.default_rng([count, n, OPS[op]])
    rows = [anything(label, random, count) for _ in range(n)]
    if op in LOGICAL:  # zeros are rare otherwise
        for row in rows:
            row[random.integers(0, 2, count).astype(bool)] = 0
    return rows


@pytest.mark.parametrize(("label", "op"), KINDS)
def test_native_kernels_equal_numpy(alone: _native.Group, label: str, op: str) -> None:
    op_stated = "sum" if op == "avg" else op  # of one rank
    for at, count in enumerate(LENGTHS):
        for n in (2, 3, 6):
            rows = rows_of(label, op, count, n)
            want = stated(label, op_stated, rows)
            got = natively(alone, label, op, rows, start=(at + n) % 4, targets=1 + n % 2)
            assert same(got, want), (count, n)


@pytest.mark.parametrize(("label", "op"), KINDS)
def test_the_reference_kernel_equals_numpy(label: str, op: str) -> None:
    dtype = Dtype[label.upper()]
    for count in LENGTHS[:-1]:
        for n in (1, 2, 5):
            rows = rows_of(label, op, count, n)
            total = reduce([row.view(STORED[dtype]) for row in rows], OPS[op], dtype)
            assert total.dtype == STORED[dtype]
            finish(total, OPS[op], n, dtype)
            assert same(total.view(DTYPES[label]), stated(label, op, rows)), (count, n)


def test_the_table_is_the_engines() -> None:
    assert {d.label: int(d) for d in Dtype} == _native.DTYPES
    assert _native.OPS == OPS
    for dtype in Dtype:
        assert dtype.itemsize == DTYPES[dtype.label].itemsize == STORED[dtype].itemsize
        for op, code in OPS.items():
            assert _native.supported(dtype, code) == supported(dtype, op), (dtype, op)


@pytest.mark.parametrize("label", ["bool", "float32", "complex64", "float8_e5m2", "float32_int32"])
def test_engines_refuse_operations_outside_the_table(alone: _native.Group, label: str) -> None:
    x = np.zeros(2, DTYPES[label])
    for op in OPS:
        if not supported(Dtype[label.upper()], op):
            with pytest.raises(ValueError, match=f"{op} of {label} is not supported"):
                natively(alone, label, op, [x, x])


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("label", FLOAT8)
def test_float8_is_ml_dtypes_for_all_pairs_of_values(alone: _native.Group, label: str, op: str) -> None:
    every = np.arange(256, dtype=np.uint8).view(FLOAT8[label])
    a, b = np.repeat(every, 256), np.tile(every, 256)
    with np.errstate(all="ignore"):
        want = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[op](a, b)
    assert want.dtype == every.dtype
    dtype = Dtype[label.upper()]
    by_reference = reduce([a.view(np.uint8), b.view(np.uint8)], OPS[op], dtype).view(every.dtype)
    for got in (natively(alone, label, op, [a, b]), by_reference):
        assert same(got, want)
        numbers = want == want
        if op in ("sum", "prod"):
            assert (got.view(np.uint8) == want.view(np.uint8))[numbers].all()


@pytest.mark.parametrize("label", [*FLOAT8, "float16", "bfloat16"])
def test_short_floats_are_rounded_as_ml_dtypes_rounds(alone: _native.Group, label: str) -> None:
    """Products and sums of three make every float32 there is to round: ties, subnormals, what is just beyond."""
    random = np.random.default_rng(5)
    rows = [anything(label, random, 100_000) for _ in range(3)]
    ordinary = [r.astype(np.float32) for r in rows]
    rows.append(np.where(random.integers(0, 2, 100_000), rows[0], 1).astype(DTYPES[label]))
    assert ordinary[0].dtype == np.float32
    for op in ("sum", "prod"):
        assert same(natively(alone, label, op, rows), stated(label, op, rows))


@pytest.mark.parametrize("label", [d.label for d in Dtype if supported(d, "avg")])
@pytest.mark.parametrize("ranks", [3, 8])
def test_averages_end_by_the_table(label: str, ranks: int) -> None:
    random = np.random.default_rng(ranks)
    rows = [anything(label, random, 500) for _ in range(ranks)]

    def rank_of(group: _native.Group, rank: int) -> bytes:
        x = rows[rank].copy()
        return nw.run(group, nw.prepare(group, nw.one_shot(rank, ranks), 500, label, "avg", 64), x, x).tobytes()

    want = stated(label, "avg", rows)
    for got in nw.values(nw.thread_world(ranks, rank_of)):
        assert same(np.frombuffer(got, DTYPES[label]), want)


def test_small_integers_are_averaged_over_more_ranks_than_they_can_count() -> None:
    values = np.array([-128, 127, 1, 0], np.int8)
    finish(values, OPS["avg"], 200, Dtype.INT8)
    assert values.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("op", LOGICAL)
@pytest.mark.parametrize("ranks", [1, 2])
def test_logical_results_are_0_or_1_even_alone(op: str, ranks: int) -> None:
    def rank_of(group: _native.Group, rank: int) -> list[float]:
        x = np.array([0, 3, -0.5], np.float32)
        return nw.run(group, nw.prepare(group, nw.one_shot(rank, ranks), 3, redop=op), x, x).tolist()

    alone = [0, 1, 1]
    want = alone if ranks == 1 or op != "lxor" else [0, 0, 0]
    assert nw.values(nw.thread_world(ranks, rank_of)) == [want] * ranks
