"""Groups of some of the ranks: made and destroyed by the thousand, in meshes, beside other backends, again."""

from __future__ import annotations

import gc
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.torch_backend.conftest import Worlds


def _held() -> tuple[int, int, int]:
    """Descriptors, threads and resident KiB of this process."""
    gc.collect()
    with open("/proc/self/status") as status:
        resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), resident


def _by_the_thousand(made: int, kept: int) -> list[list[int]]:
    """Resources of `made` groups, used and destroyed `kept` at a time, and of `kept` groups while they live."""
    import torch
    import torch.distributed as dist

    x = torch.ones(4)

    def use(many: int) -> tuple[int, int, int]:
        groups = [dist.new_group() for _ in range(many)]
        for group in groups:
            dist.all_reduce(x.fill_(1), group=group)
            assert x.tolist() == [float(dist.get_world_size())] * 4
        held = _held()
        for group in groups:
            dist.destroy_process_group(group)
        return held

    use(kept)  # what is loaded at first
    before = _held()
    alive = before
    for _ in range(made // kept):
        alive = use(kept)
    after = _held()
    return [[b - a for a, b in zip(before, then, strict=True)] for then in (alive, after)]


def _check_thousands(figures: list[list[list[int]]], kept: int) -> None:
    for alive, after in figures:
        assert alive[0] <= 2 and alive[2] < 200 * kept  # KiB
        assert after[0] <= 0 and after[1] <= 0 and after[2] < 8 * 1024


def test_groups_by_the_hundred_leave_nothing(worlds: Worlds) -> None:
    _check_thousands(worlds(2).run(_by_the_thousand, 200, 50), 50)


@pytest.mark.slow
def test_groups_by_the_thousand_leave_nothing(worlds: Worlds) -> None:
    _check_thousands(worlds(2).run(_by_the_thousand, 6000, 2000), 2000)


def _some() -> list[float]:
    """Groups of some ranks, whose members make them in orders of their own, and which are used while others live."""
    import torch
    import torch.distributed as dist

    rank, size = dist.get_rank(), dist.get_world_size()
    alone = dist.new_group([rank], use_local_synchronization=True)
    pair = dist.new_group([rank, rank ^ 1], use_local_synchronization=True)
    again = dist.new_group([rank, rank ^ 1], use_local_synchronization=True)
    rest = dist.new_group([r for r in range(size) if r != 2])
    halves, _ = dist.new_subgroups(2)
    strided, _ = dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])
    sums = []
    for group in (alone, strided, again, halves, pair, rest):
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            x = torch.tensor(float(rank))
            dist.all_reduce(x, group=group)
            sums.append(float(x))
    dist.destroy_process_group(pair)
    dist.destroy_process_group(rest)  # torch names a group by how many its maker has, too
    x = torch.tensor(float(rank))
    dist.all_reduce(x, group=again)
    other = dist.new_group([rank, rank ^ 1], use_local_synchronization=True)  # of a name that there was
    dist.all_reduce(x, group=other)
    for group in (alone, again, halves, strided, other):
        dist.destroy_process_group(group)
    return [*sums, float(x)]


def test_groups_of_some_ranks(worlds: Worlds) -> None:
    assert worlds(4).run(_some) == [
        [0.0, 2.0, 1.0, 1.0, 1.0, 4.0, 2.0],
        [1.0, 4.0, 1.0, 1.0, 1.0, 4.0, 2.0],
        [2.0, 2.0, 5.0, 5.0, 5.0, 10.0],
        [3.0, 4.0, 5.0, 5.0, 5.0, 4.0, 10.0],
    ]


def _meshes() -> list[Any]:
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    rank = dist.get_rank()

    def total(group: Any) -> float:
        x = torch.tensor(float(rank))
        dist.all_reduce(x, group=group)
        return float(x)

    line = init_device_mesh("cpu", (4,), mesh_dim_names=("all",))
    grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    cube = init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("pp", "dp", "tp"))
    flat = cube["pp", "tp"]._flatten("both")
    totals = [total(line.get_group()), total(grid["dp"].get_group()), total(grid.get_group("tp"))]
    totals += [total(cube["dp"].get_group()), total(cube["pp", "tp"]["tp"].get_group()), total(flat.get_group())]
    return totals


def test_meshes(worlds: Worlds) -> None:
    assert worlds(4).run(_meshes) == [
        [6.0, 2.0, 1.0, 0.0, 1.0, 6.0],
        [6.0, 4.0, 1.0, 1.0, 1.0, 6.0],
        [6.0, 2.0, 5.0, 2.0, 5.0, 6.0],
        [6.0, 4.0, 5.0, 3.0, 5.0, 6.0],
    ]


def _again_and_again(folder: str, addresses: list[str]) -> list[float]:
    """The default group is destroyed and made anew, by every way there is, and last by that of the tests."""
    import torch
    import torch.distributed as dist

    rank, size = dist.get_rank(), dist.get_world_size()
    _, store = dist.distributed_c10d._world.pg_map[dist.group.WORLD]
    dist.destroy_process_group()
    sums = []
    for way in addresses:
        dist.init_process_group("ringtree", init_method=way, rank=rank, world_size=size)
        sub = dist.new_group()
        x = torch.ones(3)
        dist.all_reduce(x)
        dist.all_reduce(x, group=sub)
        sums.append(float(x[0]))
        dist.destroy_process_group()
    timeout = timedelta(seconds=20)
    dist.init_process_group("ringtree", store=store, rank=rank, world_size=size, timeout=timeout)
    dist.barrier()
    return sums


def test_the_default_group_made_again_and_again(worlds: Worlds, tmp_path: Path) -> None:
    from tests.torch_backend.test_creation import _free_port

    addresses = [f"file://{tmp_path}/one"] * 5 + [f"tcp://localhost:{_free_port()}"] * 5
    assert worlds(2).run(_again_and_again, str(tmp_path), addresses) == [[4.0] * 10] * 2


def _beside_gloo() -> list[float]:
    import torch
    import torch.distributed as dist

    import ringtree.torch_backend

    rank = dist.get_rank()
    made = [dist.new_group(backend="ringtree"), dist.new_group([0, 1], backend="cpu:ringtree"), dist.new_group()]
    assert ringtree.torch_backend.communicator(made[0]).size == 2
    with pytest.raises(ValueError, match="is not a group of the backend ringtree"):
        ringtree.torch_backend.communicator()
    sums = []
    for group in (*made, None):
        x = torch.tensor(rank + 1.0)
        dist.all_reduce(x, group=group)
        sums.append(float(x))
    for group in made:
        dist.destroy_process_group(group)
    return sums


def test_groups_beside_those_of_gloo(worlds: Worlds) -> None:
    assert worlds(2, "gloo").run(_beside_gloo) == [[3.0] * 4] * 2


def _in_a_circle() -> list[str]:
    """Each of three ranks makes first what the next one makes last; then all make one group, as if nothing had been."""
    import torch
    import torch.distributed as dist

    rank = dist.get_rank()
    patience = timedelta(seconds=1.5)
    messages = []
    for pair in ([rank, (rank + 1) % 3], [rank, (rank + 2) % 3]):
        try:
            dist.new_group(pair, timeout=patience, use_local_synchronization=True)
        except RuntimeError as error:
            messages.append(str(error))
            break
    dist.barrier()
    if rank == 0:
        dist.new_group([0], use_local_synchronization=True)  # torch then has another name for the next one here
    group = dist.new_group([0, 1, 2], use_local_synchronization=True)
    x = torch.ones(1)
    dist.all_reduce(x, group=group)
    return [*messages, str(int(x))]


def test_ranks_that_wait_in_a_cycle_get_the_cycle(worlds: Worlds) -> None:
    for rank, (why, total) in enumerate(worlds(3).run(_in_a_circle)):
        one, other = (rank + 1) % 3, (rank + 2) % 3
        assert f"rank {one} did not come to the group of 2 ranks within 1.5 s" in why
        assert f"rank {one} is in new_group({sorted((one, other))}), where it waits for rank {other}" in why
        assert why.endswith("a circle: make groups in one order on all ranks")
        assert total == "3"


def _counted_beside_a_destroyed_group() -> int:
    """On a rank: how many more groups have counters once another is made and destroyed, which this rank still
    names."""
    import torch.distributed as dist

    from ringtree.torch_backend import communicators

    before = len(communicators())
    group = dist.new_group()
    assert len(communicators()) == before + 1
    dist.destroy_process_group(group)
    return len([c.counters() for c in communicators()]) - before


def test_a_destroyed_group_is_none_of_this_process(worlds: Worlds) -> None:
    assert worlds(2).run(_counted_beside_a_destroyed_group) == [0, 0]
