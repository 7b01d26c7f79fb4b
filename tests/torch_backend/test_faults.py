"""What survivors are told when something goes wrong between ranks: at once or within the timeout, by name."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.torch_backend.faults import TIMEOUT_S, run


def _called(call: str) -> None:
    import torch
    import torch.distributed as dist

    x = torch.ones(8)
    if call == "async":
        dist.all_reduce(x, async_op=True).wait()
    elif call == "future":
        dist.all_reduce(x, async_op=True).get_future().wait()
    elif call == "barrier":
        dist.barrier()
    else:
        {"all_reduce": dist.all_reduce, "broadcast": lambda t: dist.broadcast(t, 1)}[call](x)


def _dies(rank: int, call: str) -> None:
    if rank == 1:
        os._exit(7)
    _called(call)


@pytest.mark.parametrize("call", ["all_reduce", "broadcast", "barrier", "async", "future"])
def test_a_dead_rank_is_named_at_once(tmp_path: Path, call: str) -> None:
    stories, codes = run(3, tmp_path, _dies, call)
    assert codes == [3, 7, 3]
    name = "all_reduce" if call in ("async", "future") else call
    for rank, story in stories.items():
        assert {"PeerDied", "DistBackendError"} <= set(story.kinds) or call == "future"
        assert f"rank {rank}: {name}(" in story.text and "rank 1 died" in story.text, story.text
        assert "sequence number 2 of group default_pg" in story.text


def _hangs(rank: int, call: str) -> None:
    if rank == 1:
        time.sleep(TIMEOUT_S + 2)
        return
    _called(call)


@pytest.mark.parametrize("call", ["all_reduce", "async"])
def test_a_rank_that_does_not_come_is_named_within_the_timeout(tmp_path: Path, call: str) -> None:
    stories, codes = run(3, tmp_path, _hangs, call)
    assert codes == [3, 0, 3]
    for story in stories.values():
        assert "TimedOut" in story.kinds and "waited 3 s for rank 1 in all_reduce" in story.text, story.text
        assert TIMEOUT_S * 0.9 < story.took_s < 2 * TIMEOUT_S
