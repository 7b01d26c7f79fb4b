"""A schedule's code, written a kind of ranks at a time, is that of the programs it is lowered to."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from ringtree.algorithms import build
from ringtree.algorithms.registry import pairs
from ringtree.ir.lower import lower
from ringtree.simulate.code import Code, of_programs, of_schedule
from ringtree.transform import pipeline


@pytest.mark.parametrize(("name", "what"), pairs(), ids=[f"{a}-{c}" for a, c in pairs()])
def test_the_code_is_that_of_the_lowered_programs(name: str, what: str) -> None:
    plain = [build(name, what, n) for n in (2, 6, 8)]
    for schedule in (*plain, *(pipeline(p, 2) for p in plain)):
        sizes = schedule.promise.chunk_sizes(schedule.ranks, schedule.chunks, 100_003)
        one, two = of_schedule(schedule, sizes), of_programs(lower(schedule), sizes)
        assert one is not None and two is not None
        for field in fields(Code):
            if isinstance(getattr(two, field.name), np.ndarray):
                assert np.array_equal(getattr(one, field.name), getattr(two, field.name)), field.name
