"""Messages when something goes wrong between ranks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.torch_backend.faults import TIMEOUT_S, hurry, run, stay_away


def _called(call: str) -> None:
    import torch
    import torch.distributed as dist

    x = torch.ones(4_000_000)
    {
        "send": lambda: dist.send(x, 1, tag=6),
        "recv": lambda: dist.recv(x, 1, tag=6),
        "any": lambda: dist.recv(x, tag=6),
        "future": lambda: dist.irecv(x, 1, tag=6).get_future().wait(),
        "batch": lambda: [w.wait() for w in dist.batch_isend_irecv([dist.P2POp(dist.irecv, x, 1, tag=6)])],
    }[call]()


def _dies(rank: int, call: str) -> None:
    if rank == 1:
        os._exit(7)
    _called(call)


@pytest.mark.parametrize("call", ["send", "recv", "any", "future", "batch"])
def test_a_dead_peer_is_named_at_once(tmp_path: Path, call: str) -> None:
    stories, codes = run(2, tmp_path, _dies, call)
    assert codes == [3, 7]
    assert "PeerDied" in stories[0].kinds or call == "future"
    for part in ("rank 0: ", "rank 1 died", "tag 6"):
        assert part in stories[0].text


def _hangs(rank: int, call: str) -> None:
    hurry()
    if rank == 1:
        stay_away()
    else:
        _called(call)


@pytest.mark.parametrize("call", ["send", "any", "future"])
def test_a_peer_that_does_not_come_is_named_within_the_timeout(tmp_path: Path, call: str) -> None:
    stories, codes = run(2, tmp_path, _hangs, call)
    assert codes == [3, 0]
    assert "TimedOut" in stories[0].kinds or call == "future"
    for part in ("rank 0: ", "any rank" if call == "any" else "rank 1", "tag 6", f"{TIMEOUT_S:g} s"):
        assert part in stories[0].text


def _differ(rank: int, other: dict[str, Any]) -> None:
    import torch
    import torch.distributed as dist

    if rank == 0:
        dist.send(torch.ones(8), 1)
        dist.barrier()
        return
    dist.recv(torch.ones(other.get("shape", 8), dtype=getattr(torch, other.get("dtype", "float32"))), 0)


@pytest.mark.parametrize("other", [{"shape": 9}, {"shape": 7}, {"dtype": "int32"}, {"dtype": "float64", "shape": 4}])
def test_another_type_or_length_raises_on_both(tmp_path: Path, other: dict[str, Any]) -> None:
    stories, codes = run(2, tmp_path, _differ, other)
    assert codes == [3, 3]
    for story in stories.values():
        assert "Mismatch" in story.kinds, story.text
