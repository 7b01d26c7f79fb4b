"""all_reduce is reduce then broadcast, and reduce_scatter then all_gather; all_gather is gather then broadcast.

With any algorithm for each part: what is composed is proved like anything else.
"""

from __future__ import annotations

from itertools import product

import pytest

from ringtree.algorithms import build, serving
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.lower import lower
from ringtree.ir.schedule import Schedule
from ringtree.transform import in_place
from ringtree.transform.rows import alike
from ringtree.verify import ProofError, prove, prove_programs
from tests import oracle

IDENTITIES = [
    ("all_reduce", "reduce", "broadcast"),
    ("all_reduce", "reduce_scatter", "all_gather"),
    ("all_gather", "gather", "broadcast"),
]


@pytest.mark.parametrize("n", [4, *(pytest.param(n, marks=pytest.mark.slow) for n in (5, 8))])
@pytest.mark.parametrize(("whole", "first", "second"), IDENTITIES)
def test_the_whole_is_its_parts(whole: str, first: str, second: str, n: int) -> None:
    for one, other in product(serving(first), serving(second)):
        parts = (_part(one, first, n), _part(other, second, n))
        before, after = alike(*map(in_place, parts))
        composed = before.then(after, whole, f"{one}, {other}")
        assert composed.root is None
        assert oracle.wrong(composed) is None
        prove(composed)
        prove_programs(lower(composed))


def test_the_other_order_is_refused() -> None:
    backwards = build("ring", "all_gather", 4).then(build("ring", "reduce_scatter", 4), "all_reduce")
    assert oracle.wrong(backwards) is not None
    with pytest.raises(ProofError, match="all_reduce over 4 ranks"):
        prove(backwards)


def _part(name: str, collective: str, n: int) -> Schedule:
    return build(name, collective, n, 2 if COLLECTIVES[collective].rooted else None)
