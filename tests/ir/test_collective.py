"""The table of collectives, checked against numpy's words for them."""

import numpy as np
import pytest

from ringtree.ir.collective import COLLECTIVES, REDUCED, collective


def by_hand(name, x, root):
    """x[rank]: each rank's window of the whole vector; what each rank is promised, by definition."""
    n, chunks = x.shape
    total, blocks = x.sum(axis=0), np.split(np.arange(chunks), n)
    own = np.concatenate([x[r][blocks[r]] for r in range(n)])
    return {
        "all_reduce": [total] * n,
        "barrier": [total] * n,
        "reduce_scatter": [total[b] for b in blocks],
        "all_gather": [own] * n,
        "broadcast": [x[root]] * n,
        "reduce": [total if r == root else total[:0] for r in range(n)],
        "gather": [own if r == root else own[:0] for r in range(n)],
        "scatter": [x[root][b] for b in blocks],
        "all_to_all": [np.concatenate([x[s][blocks[r]] for s in range(n)]) for r in range(n)],
        "scan": list(x.cumsum(axis=0)),
        "exscan": [total[:0], *x.cumsum(axis=0)[:-1]],
    }[name]


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_promises(name, n):
    c, chunks, root = COLLECTIVES[name], 3 * n, n - 1
    x = np.random.default_rng(0).integers(0, 10**6, (n, chunks))
    for rank, want in enumerate(by_hand(name, x, root)):
        position, label, origin = c.promised(rank, n, chunks, root)
        whose = c.contributors(rank, n)
        got = [x[whose, k].sum() if o == REDUCED else x[o, k] for k, o in zip(label, origin, strict=True)]
        assert got == want.tolist()
        assert position.tolist() == list(c.postcondition(rank, n, chunks, root))


@pytest.mark.parametrize(
    ("name", "factor"),
    [("all_reduce", 1.75), ("reduce_scatter", 0.875), ("all_gather", 0.875), ("broadcast", 1), ("reduce", 1)]
    + [("gather", 0.875), ("scatter", 0.875), ("all_to_all", 0.875), ("barrier", 0), ("scan", 1), ("exscan", 1)],
)
def test_bus_factor_is_nccl_tests(name, factor):
    assert collective(name).bus_factor(8) == factor


def test_unknown_collective_names_the_known():
    with pytest.raises(ValueError, match=r"no collective 'allreduce': expected one of all_reduce, "):
        collective("allreduce")
