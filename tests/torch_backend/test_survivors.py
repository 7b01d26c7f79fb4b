"""After a rank was killed the others go on in one group: by torch's reconfigure, and by a group over a communicator
that has shrunk, in which DDP trains on."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.torch_backend import faults
from tests.torch_backend.test_changing_members import _handles, _options

VICTIM = 1


def _lost_one(rank: int, call: Any) -> float:
    """Rank VICTIM is killed, and the others get an error that names it; how long they waited."""
    if rank == VICTIM:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    began_s = time.monotonic()
    with pytest.raises(RuntimeError, match=r"rank 1 (died|is out of reach)"):  # DDP wraps the DistBackendError
        call()
    return time.monotonic() - began_s


def _reconfigures(rank: int) -> None:
    import torch
    import torch.distributed as dist

    group: Any = dist.group.WORLD
    handles = _handles(group, dist.distributed_c10d._get_default_store(), rank, 3, "handles")
    x = torch.full((4,), rank + 1.0)
    assert _lost_one(rank, lambda: dist.all_reduce(x.clone())) < 5
    group.reconfigure(_options(1, [handles[0], handles[2]])).wait()
    dist.all_reduce(x)
    assert (dist.get_rank(), dist.get_world_size(), x.tolist()) == (rank // 2, 2, [4.0] * 4)


def _rows(step: int) -> Any:
    import torch

    return torch.randn(6, 8, generator=torch.Generator().manual_seed(step))


def _step(model: Any, rows: Any) -> None:
    import torch

    model.zero_grad()
    (model(rows) - rows).square().mean().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad


def _trains_on(rank: int) -> None:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from ringtree.torch_backend import communicator, group_of

    torch.manual_seed(0)
    model, alone = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
    alone.load_state_dict(model.state_dict())
    replica = DistributedDataParallel(model)
    _step(replica, _rows(0).chunk(3)[rank])
    _lost_one(rank, lambda: _step(replica, _rows(1).chunk(3)[rank]))

    shrunk = communicator().shrink()
    assert (shrunk.size, shrunk.former_ranks) == (2, (0, 2))
    group: Any = group_of(shrunk)
    replica = DistributedDataParallel(model, process_group=group)
    for step in (1, 2):
        _step(replica, _rows(step).chunk(2)[shrunk.rank])
    for step in (0, 1, 2):
        _step(alone, _rows(step))
    torch.testing.assert_close(model.state_dict(), alone.state_dict())

    x = torch.full((4,), shrunk.rank + 1.0)
    dist.all_reduce(x, group=group)
    dist.broadcast(x, group=group, group_src=1)
    assert x.tolist() == [3.0] * 4
    group.shutdown()
    shrunk.close()


@pytest.mark.parametrize("go_on", [_reconfigures, _trains_on])
def test_survivors_go_on(go_on: Any, tmp_path: Path) -> None:
    stories, codes = faults.run(3, tmp_path, go_on)
    assert not stories, {rank: story.text for rank, story in stories.items()}
    assert codes == [0, -signal.SIGKILL, 0]
