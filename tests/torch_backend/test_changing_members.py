"""Groups that go on with other members: fewer, more, in another order, after an abort."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.torch_backend.calls.test_administration import _again
from tests.torch_backend.conftest import Worlds


def _options(uuid: int, handles: list[str] | set[str]) -> Any:
    """torch's options where it has them (2.14); what they hold where it has not."""
    from torch._C import _distributed_c10d as c10d

    options = getattr(c10d, "ReconfigureOptions", SimpleNamespace)()
    options.uuid, options.handles, options.timeout, options.hints = uuid, handles, timedelta(seconds=20), {}
    return options


def _handles(group: Any, store: Any, rank: int, size: int, key: str) -> list[str]:
    store.set(f"{key}/{rank}", group.get_reconfigure_handle())
    return [store.get(f"{key}/{other}").decode() for other in range(size)]


def _sum() -> tuple[int, int, float]:
    import torch
    import torch.distributed as dist

    x = torch.full((4,), dist.get_rank() + 1.0)
    dist.all_reduce(x)
    return dist.get_rank(), dist.get_world_size(), float(x[3])


def _met_again(store: Any, key: str, size: int) -> None:
    """A last word of each rank: the world's next test takes the group as it is."""
    store.add(key, 1)
    while store.add(key, 0) < size:
        pass


def _changes() -> list[tuple[int, int, float] | None]:
    import torch.distributed as dist

    group: Any = dist.group.WORLD
    rank, size = dist.get_rank(), dist.get_world_size()
    store = dist.distributed_c10d._get_default_store()
    handles = _handles(group, store, rank, size, "handles")
    seen: list[tuple[int, int, float] | None] = []
    for uuid, chosen in enumerate((handles[:-1], [handles[rank]], handles[::-1], set(handles), handles)):
        if handles[rank] in chosen:
            group.reconfigure(_options(100 * (rank + 1) + uuid if len(chosen) == 1 else uuid, chosen)).wait()
            seen.append(_sum())
        else:
            seen.append(None)
    assert dist.get_rank() == rank
    group.abort()
    with pytest.raises(RuntimeError):
        _sum()
    _met_again(store, "aborted", size)
    group.reconfigure(_options(50, handles)).wait()
    seen.append(_sum())
    with pytest.raises(RuntimeError, match="uuid 50 was already used"):
        group.reconfigure(_options(50, handles))
    with pytest.raises(ValueError, match="is not among the 1 given"):
        group.reconfigure(_options(51, ["another"]))
    return seen


def test_members_change(worlds: Worlds) -> None:
    found = worlds(3).run(_again, _changes)
    assert found[0] == [(0, 2, 3.0), (0, 1, 1.0), (2, 3, 6.0), found[0][3], (0, 3, 6.0), (0, 3, 6.0)]
    assert found[1] == [(1, 2, 3.0), (0, 1, 1.0), (1, 3, 6.0), found[1][3], (1, 3, 6.0), (1, 3, 6.0)]
    assert found[2] == [None, (0, 1, 1.0), (0, 3, 6.0), found[2][3], (2, 3, 6.0), (2, 3, 6.0)]
    assert sorted(row[3][0] for row in found) == [0, 1, 2]  # a set has an order that all ranks agree on


def _joined_late() -> tuple[int, int, float] | str:
    """By torch's own functions, from a group that nobody has met in yet."""
    import torch.distributed as dist

    if not hasattr(dist, "_reconfigure"):
        return "2.14"
    store = dist.distributed_c10d._get_default_store()
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.destroy_process_group()
    dist.init_process_group("ringtree", store=store, rank=rank, world_size=size, enable_reconfigure=True)
    assert dist._supports_reconfigure()
    handles = _handles(dist.group.WORLD, store, rank, size, "late")
    if rank < 2:
        dist._reconfigure(1, handles[:2], timeout=timedelta(seconds=20)).wait()
        assert _sum() == (rank, 2, 3.0)
    dist._reconfigure(2, handles, timeout=timedelta(seconds=20)).wait()
    return _sum()


def test_members_join_late(worlds: Worlds) -> None:
    found = worlds(3).run(_again, _joined_late)
    if "2.14" in found:
        pytest.skip("torch 2.14 brought the functions")
    assert found == [(0, 3, 6.0), (1, 3, 6.0), (2, 3, 6.0)]
