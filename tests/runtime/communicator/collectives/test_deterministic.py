"""The same bits: every time by the same algorithm, and by every algorithm in rank order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from ringtree.algorithms import serving
from ringtree.ir.collective import COLLECTIVES
from ringtree.plan import at_once, choose
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import Pools

Values = np.ndarray[Any, Any]


def anything(rank: int, count: int, dtype: Any) -> Values:
    """Of all magnitudes, so that sums in different orders differ."""
    random = np.random.default_rng([rank, count])
    return (random.normal(size=count) * 10.0 ** random.integers(-3, 4, count)).astype(dtype)


def in_order(ranks: int, count: int, dtype: Any) -> Values:
    """The sum as it is defined: rank 0 first, 16-bit floats in float32 and rounded once."""
    wide = np.float32 if dtype is bfloat16 else dtype
    total = anything(0, count, dtype).astype(wide)
    for rank in range(1, ranks):
        total = total + anything(rank, count, dtype).astype(wide)
    return total.astype(dtype)


def bits(x: Values) -> bytes:
    return x.tobytes()


def sums(comm: Communicator, dtype: Any) -> list[str]:
    wrong = []
    n, ordered = comm.size, {"deterministic": "rank_order"}
    for count in (n, 4_000 // n * n, 30_000 // n * n, 300_000 // n * n):
        x, want = anything(comm.rank, count, dtype), in_order(n, count, dtype)
        block = want[comm.rank * count // n : (comm.rank + 1) * count // n]
        for _ in range(2):
            for name in (None, *at_once("all_reduce")):
                if bits(comm.all_reduce(x, algorithm=name, **ordered)) != bits(want):
                    wrong.append(f"all_reduce of {count} by {name}")
            if bits(comm.reduce_scatter(x, **ordered)) != bits(block):
                wrong.append(f"reduce_scatter of {count}")
            got = comm.reduce(x, root=n - 1, **ordered)
            if got is not None and bits(got) != bits(want):
                wrong.append(f"reduce of {count}")
            work = comm.all_reduce(x, async_op=True, **ordered)
            if bits(work.result()) != bits(want):
                wrong.append(f"async of {count}")
        ring = {bits(comm.all_reduce(x, algorithm="ring", deterministic=True)) for _ in range(5)}
        if len(ring) != 1:
            wrong.append("the ring's bits change")
    return wrong


@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
@pytest.mark.parametrize("ranks", [1, 3, 8, *(pytest.param(ranks, marks=pytest.mark.slow) for ranks in (2, 5))])
def test_rank_order_is_to_the_last_bit(pools: Pools, ranks: int, dtype: Any) -> None:
    for wrong in pools("shm", ranks).run(sums, dtype):
        assert not wrong, "\n".join(wrong)


def test_rank_order_on_the_reference_engine(pools: Pools) -> None:
    for wrong in pools("reference", 3).run(sums, np.float32):
        assert not wrong, "\n".join(wrong)


def refusals(comm: Communicator) -> dict[str, str]:
    errors = {}
    for name in serving("all_reduce"):
        try:
            comm.all_reduce(np.ones(comm.size), algorithm=name, deterministic="rank_order")
        except ValueError as error:
            errors[name] = str(error)
    with pytest.raises(ValueError, match="deterministic='yes': expected False, True, 'rank_order' or 'ranks'"):
        comm.all_reduce(np.ones(3), deterministic="yes")
    with pytest.raises(ValueError, match="5 does not reduce all_reduce in rank order at once"):
        comm.all_reduce(np.ones(3), algorithm=5, deterministic="rank_order")  # type: ignore[arg-type]
    return errors


def test_algorithms_of_another_order_are_refused(pools: Pools, engine: str) -> None:
    for errors in pools(engine, 3).run(refusals):
        assert set(errors) == set(serving("all_reduce")) - set(at_once("all_reduce"))
        assert errors["ring"] == (
            "ring does not reduce all_reduce in rank order at once: deterministic='rank_order' expects one of "
            "one_shot, two_shot, parameter_server"
        )


def test_the_rule_chooses_algorithms_of_rank_order() -> None:
    for collective, names in ((c, at_once(c)) for c in COLLECTIVES if at_once(c)):
        for ranks in (1, 2, 8, 64):
            for nbytes in (0, 1 << 10, 1 << 20, 1 << 30):
                assert choose(collective, ranks, nbytes, rank_order=True).algorithm in names
