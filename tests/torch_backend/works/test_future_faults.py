"""Callbacks of a future whose call fails."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.torch_backend.faults import run


def _dies_in_backward(rank: int) -> None:
    import torch
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(torch.nn.Linear(10, 10))
    loss = model(torch.ones(3, 10)).sum()
    if rank == 1:
        os._exit(7)
    loss.backward()


def test_ddp_names_the_dead_rank_in_backward(tmp_path: Path) -> None:
    """It waits for futures in C++, which knows no error but one that a callback raised."""
    stories, codes = run(2, tmp_path, _dies_in_backward)
    assert codes == [3, 7]
    for part in ("rank 0: all_reduce(", "sequence number", "rank 1 died"):
        assert part in stories[0].text


def _chained(rank: int) -> None:
    import torch
    import torch.distributed as dist

    def then(future: Any) -> Any:
        return future.value()

    if rank == 1:
        os._exit(7)
    dist.all_reduce(torch.ones(3), async_op=True).get_future().then(then).then(then).wait()


def test_an_error_goes_through_callbacks(tmp_path: Path) -> None:
    stories, codes = run(2, tmp_path, _chained)
    assert codes == [3, 7]
    assert "rank 1 died" in stories[0].text
