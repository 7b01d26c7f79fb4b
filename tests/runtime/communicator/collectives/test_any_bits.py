"""Random reductions of any bits, however the arrays lie: the algorithms that reduce in rank order agree to the last
bit, and with numpy."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from ringtree.plan import at_once
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import Pools
from tests.runtime.reductions import KINDS, Values, anything, stated

FORMS = ("plain", "strided", "read-only", "in place", "shifted")
COLLECTIVES = ("all_reduce", "reduce", "reduce_scatter")


def laid_out(x: Values, form: str) -> tuple[Values, Values | None]:
    """`x` as an input, and an output where the form has one."""
    if form == "strided":
        wide = np.zeros(2 * len(x), x.dtype)
        wide[::2] = x
        return wide[::2], None
    if form == "shifted":
        wide = np.concatenate([x, x[:3]])
        return wide[: len(x)], wide[len(wide) - len(x) :]
    x = x.copy()
    x.flags.writeable = form != "read-only"
    return x, x if form == "in place" else None


def bits(x: Values) -> bytes:
    """Without what lies between the fields of a pair."""
    return b"".join(np.ascontiguousarray(x[name]).tobytes() for name in x.dtype.names) if x.dtype.names else x.tobytes()


def alike(got: Values, want: Values) -> bool:
    """Equal as values: numpy's choice of two zeros, or of two NaNs, is its own."""
    if got.dtype.names:
        return all(alike(got[name], want[name]) for name in got.dtype.names)
    with np.errstate(invalid="ignore"):
        return bool(np.all((got == want) | ((got != got) & (want != want))))


def differences(comm: Communicator, seed: int, calls: int) -> list[str]:
    chance, wrong, me, n = random.Random(seed), [], comm.rank, comm.size
    for _ in range(calls):
        collective, (label, op) = chance.choice(COLLECTIVES), chance.choice(KINDS)
        count, root = chance.choice([0, 1, 3, 64, 257, 5000]), chance.randrange(n)
        form = "plain" if collective == "reduce_scatter" else chance.choice(FORMS)
        total = count * n if collective == "reduce_scatter" else count
        drawn = chance.randrange(1 << 30)
        rows = [anything(label, np.random.default_rng([drawn, rank]), total) for rank in range(n)]
        seen = set()
        for name in (None, *at_once(collective)):
            x, out = laid_out(rows[me], form)
            given: dict[str, Any] = {"out": out, "algorithm": name, "async_op": chance.random() < 0.3}
            if collective == "reduce":
                given["root"] = root
            got = getattr(comm, collective)(x, op, deterministic="rank_order", **given)
            got = got.result() if given["async_op"] else got
            if collective != "reduce" or me == root:
                seen.add(bits(got))
            if out is None and bits(x) != bits(rows[me]):
                wrong.append(f"{collective} of {count} {label} by {op}, {form}, {name}: the input was changed")
        want = stated(label, op, rows)
        want = want[me * count : (me + 1) * count] if collective == "reduce_scatter" else want
        if len(seen) > 1 or (seen and not alike(got, want)):
            wrong.append(f"{collective} of {count} {label} by {op}, {form}: {len(seen)} results, seed {drawn}")
    return wrong


def check(pools: Pools, ranks_of_pools: Iterable[int], seed: int, calls: int) -> None:
    for ranks in ranks_of_pools:
        for wrong in pools("shm", ranks).run(differences, seed + ranks, calls):
            assert not wrong, "\n".join(wrong)


def test_random_reductions_agree_to_the_last_bit(pools: Pools) -> None:
    check(pools, (1, 2, 5), 1, 25)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_many_random_reductions_agree_to_the_last_bit(pools: Pools) -> None:
    check(pools, range(1, 7), 1000, 1500)
