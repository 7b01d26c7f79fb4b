"""The collectives, against what they must give, on real process groups."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch_backend.conftest import Worlds


def _all_reduced(async_op: bool) -> list[Any]:
    import torch
    import torch.distributed as dist

    x = torch.arange(5.0) + dist.get_rank()
    work = dist.all_reduce(x, async_op=async_op)
    if async_op:
        work.wait()
    return list(x.tolist())


@pytest.mark.parametrize("async_op", [False, True])
@pytest.mark.parametrize("n", [2, 3])
def test_all_reduce(worlds: Worlds, n: int, async_op: bool) -> None:
    expected = [n * k + n * (n - 1) / 2 for k in range(5)]
    assert worlds(n).run(_all_reduced, async_op) == [expected] * n
