"""The rule names algorithms that exist, for every collective at every size."""

import pytest

from ringtree.algorithms import serving
from ringtree.ir.collective import COLLECTIVES
from ringtree.plan import choose


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("ranks", [1, 2, 3, 16, 64])
@pytest.mark.parametrize("nbytes", [0, 8, 4096, 1 << 20, 1 << 30])
def test_what_is_chosen_serves(collective, ranks, nbytes):
    choice = choose(collective, ranks, nbytes)
    assert choice.algorithm in serving(collective)
    assert choice.why


def test_latency_and_bytes_pull_apart():
    assert choose("all_reduce", 2, 8).algorithm != choose("all_reduce", 2, 1 << 20).algorithm


def test_unknown_collective():
    with pytest.raises(ValueError, match="no collective 'nothing'"):
        choose("nothing", 2, 8)
