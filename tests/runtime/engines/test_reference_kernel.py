"""The reference engine's arithmetic, against ml_dtypes and C's rules."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from ml_dtypes import bfloat16

from ringtree.runtime.engines.reference.kernel import finish, narrow, reduce, widen
from ringtree.runtime.types import OPS, Dtype

floats = st.lists(st.floats(width=32), min_size=1, max_size=20)


@given(floats)
def test_narrowing_is_ml_dtypes_rounding(values: list[float]) -> None:
    exact = np.array(values, np.float32)
    with np.errstate(all="ignore"):
        want = exact.astype(bfloat16)
    got = narrow(exact, Dtype.BFLOAT16).view(bfloat16)
    same = np.isnan(want.astype(np.float32)) == np.isnan(got.astype(np.float32))
    assert same.all()
    keep = ~np.isnan(want.astype(np.float32))
    assert (got[keep] == want[keep]).all()


@given(floats)
def test_widening_loses_nothing(values: list[float]) -> None:
    bits = narrow(np.array(values, np.float32), Dtype.BFLOAT16)
    assert (narrow(widen(bits, Dtype.BFLOAT16), Dtype.BFLOAT16) == bits).all()


def test_bfloat16_is_rounded_once_however_many_are_added() -> None:
    parameters = [np.array([1.0 if i == 0 else 2.0**-8], bfloat16).view(np.uint16) for i in range(9)]
    total = reduce(parameters, OPS["sum"], Dtype.BFLOAT16).view(bfloat16)
    assert float(total[0]) == 1.0 + 8 * 2.0**-8


def test_integer_averages_go_towards_zero() -> None:
    values = np.array([-7, 7, -1, 1, 0, 8], np.int32)
    finish(values, OPS["avg"], 2, Dtype.INT32)
    assert values.tolist() == [-3, 3, 0, 0, 0, 4]


def test_sources_are_reduced_in_the_order_listed() -> None:
    a, b, c = (np.array([v], np.float32) for v in (1e8, -1e8, 1.0))
    assert reduce([a, b, c], OPS["sum"], Dtype.FLOAT32)[0] == 1.0
    assert reduce([a, c, b], OPS["sum"], Dtype.FLOAT32)[0] == 0.0
    assert a[0] == np.float32(1e8)
