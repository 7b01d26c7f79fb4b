"""Parts of any sizes from everyone to everyone, of which a rank knows its own only."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree import Mismatch, spawn
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import in_threads
from tests.runtime.conftest import Pools


def exchanged(comm: Communicator, async_op: bool) -> None:
    n, me = comm.size, comm.rank
    for scale in (0, 1, 100_000):
        for _ in range(3):
            xs = [np.full((me + 2 * r) % 3 * scale, me * n + r) for r in range(n)]
            outs = [np.zeros((r + 2 * me) % 3 * scale, np.int64) for r in range(n)]
            made = comm.exchange_parts(xs, outs, async_op=async_op)
            if async_op:
                assert made.wait()
                assert made.done()
                made = made.result()
            assert made is outs
            assert all((out == r * n + me).all() for r, out in enumerate(outs))


def in_place(comm: Communicator, async_op: bool) -> None:
    """Inputs in the memory of outputs, where others' parts go."""
    n, me = comm.size, comm.rank
    x = np.arange(2 * n) + 100 * me
    parts = list(x.reshape(n, 2))
    made = comm.exchange_parts(parts, parts[::-1], async_op=async_op)
    if async_op:
        made.wait()
    assert [int(part[1]) for part in parts[::-1]] == [100 * r + 2 * me + 1 for r in range(n)]


@pytest.mark.parametrize("async_op", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("case", [exchanged, in_place])
def test_parts(pools: Pools, engine: str, n: int, case: object, async_op: bool) -> None:
    pools(engine, n).run(case, async_op)


def refused(comm: Communicator) -> None:
    x = np.zeros(2)
    with pytest.raises(ValueError, match="got 1 parts to send and 2 to fill; expected 2 of each"):
        comm.exchange_parts([x], [x, x])
    with pytest.raises(TypeError, match="outs is None; expected a list of arrays"):
        comm.exchange_parts([x, x], None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="as this rank sends itself"):
        comm.exchange_parts([x, x], [np.zeros(3), np.zeros(3)])
    assert [y.tolist() for y in comm.exchange_parts(iter([x, x]), [x.copy(), x.copy()])] == [[0, 0]] * 2  # type: ignore[arg-type]
    comm.barrier()


def at_odds(comm: Communicator) -> None:
    xs = [np.zeros(2) for _ in range(comm.size)]
    outs = [np.zeros(2 if r == comm.rank else 3) for r in range(comm.size)]
    with pytest.raises(
        Mismatch, match=r"rank [01] sent 16 bytes of float64 by exchange_parts where rank [01] receives 24 bytes"
    ):
        comm.exchange_parts(xs, outs)


def otherwise(comm: Communicator, async_op: bool) -> None:
    x = np.zeros(3)
    with pytest.raises(Mismatch, match=r"all_reduce\(float64, sum, count 3\)") as caught:
        if comm.rank == 0:
            made = comm.exchange_parts([x, x], [x.copy(), x.copy()], async_op=async_op)
            if async_op:
                made.wait()
        else:
            comm.all_reduce(x)
    assert "exchange_parts" in str(caught.value)


@pytest.mark.parametrize("async_op", [False, True])
def test_another_call_is_a_mismatch(engine: str, async_op: bool) -> None:
    spawn(otherwise, 2, async_op, engine=engine, threads=in_threads(engine), timeout_s=60)


def test_refusals(pools: Pools, engine: str) -> None:
    pools(engine, 2).run(refused)
    pool = pools(engine, 2)
    pool.run(at_odds)
    pool.close()
