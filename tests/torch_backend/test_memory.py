"""Tensors in a group's symmetric memory, and FSDP2 with its buffers there."""

from __future__ import annotations

import gc
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.torch_backend.conftest import Worlds
from tests.waiting import until


def _lies_in_the_heap(tensor: Any, group: Any = None) -> bool:
    import torch.distributed as dist

    heap = (group or dist.group.WORLD)._heap
    begin = tensor.data_ptr() - heap._address
    return bool(0 <= begin <= begin + tensor.nbytes <= heap._existing_bytes)


def _allocated() -> list[bool]:
    import torch
    import torch.distributed as dist

    group = dist.group.WORLD
    assert group.supports_tensor_alloc(torch.device("cpu"))
    assert not group.supports_tensor_alloc(torch.device("meta"))
    dtypes = (torch.float32, torch.bfloat16, torch.bool, torch.float8_e5m2, torch.complex64)
    made = [group.allocate_tensor(30_000 + k, dtype=dtype, device="cpu") for k, dtype in enumerate(dtypes)]
    assert [(t.numel(), t.dtype) for t in made] == [(30_000 + k, dtype) for k, dtype in enumerate(dtypes)]
    assert group.allocate_tensor(0, dtype=torch.float32).numel() == 0
    assert group.allocate_tensor((3, 4), dtype=torch.float32).shape == (3, 4)
    for k, t in enumerate(made):
        t.view(torch.uint8).fill_(k)
    return [_lies_in_the_heap(t) and bool((t.view(torch.uint8) == k).all()) for k, t in enumerate(made)]


@pytest.mark.parametrize("n", [2, 4])
def test_tensors_lie_in_memory_of_the_group(worlds: Worlds, n: int) -> None:
    assert worlds(n).run(_allocated) == [[True] * 5] * n


def _broadcast_late(symmetric: bool, sent: Path) -> bool:
    """Whether the root had sent before the other came to receive it. `sent`: a file that it makes then."""
    import torch
    import torch.distributed as dist

    x = dist.group.WORLD.allocate_tensor(4096, dtype=torch.float32) if symmetric else torch.empty(4096)
    x.fill_(dist.get_rank())
    dist.barrier()
    if dist.get_rank() == 1:
        time.sleep(0.5) if symmetric else until(sent.exists)
    before = sent.exists()
    dist.broadcast(x, 0)
    sent.touch()
    assert not x.any()
    return before


@pytest.mark.parametrize("symmetric", [False, True])
def test_peers_read_them_in_place(worlds: Worlds, symmetric: bool, tmp_path: Path) -> None:
    """A staged message is sent once it is in a slot; one read in place, once it was read."""
    assert worlds(2).run(_broadcast_late, symmetric, tmp_path / "sent") == [False, not symmetric]


def _trained(symmetric: bool, steps: int, layers: int) -> tuple[list[list[float]], int, int]:
    """Parameters after some steps; how many buffers lay in the heap; the heap's size."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(50, 50) for _ in range(layers)])
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    group: Any = dist.group.WORLD
    there = 0
    allocate = type(group).allocate_tensor

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal there
        made = allocate(self, *args, **kwargs)
        there += _lies_in_the_heap(made)
        return made

    type(group).allocate_tensor = counted
    try:
        for module in (*model, model):
            fully_shard(module, mesh=mesh)
            if symmetric:
                module.set_allocate_memory_from_process_group_for_comm(True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(steps):
            x = torch.full((4, 50), 0.01 * (step % 7 + dist.get_rank()))
            model(x).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    finally:
        type(group).allocate_tensor = allocate
    return [p.full_tensor().flatten().tolist() for p in model.parameters()], there, group._heap._existing_bytes


@pytest.mark.parametrize("n", [2, 4])
def test_fsdp2_trains_alike_with_its_buffers_there(worlds: Worlds, n: int) -> None:
    world = worlds(n)
    expected = world.run(_trained, False, 3, 3)[0][0]
    for parameters, there, _ in world.run(_trained, True, 3, 3):
        assert parameters == expected
        assert there >= 3 * 3 * 2  # of each layer and step


def test_100_steps_take_no_more_memory_than_two(worlds: Worlds) -> None:
    world = worlds(2)
    few = [size for _, _, size in world.run(_trained, True, 2, 1)]
    assert [size for _, _, size in world.run(_trained, True, 100, 1)] == few


def _filled_up() -> list[bool]:
    """In a heap of 4 MiB a rank: allocations, too large ones, freed ones, and ones without memory."""
    import torch
    import torch.distributed as dist

    from ringtree.runtime.communicator.windows import heap

    kept = heap.MOST_BYTES, heap.memory_available_bytes
    try:
        heap.MOST_BYTES = dist.get_world_size() * (4 << 20)
        group: Any = dist.new_group(backend="ringtree")
        first = group.allocate_tensor(1 << 20, dtype=torch.uint8)
        second = group.allocate_tensor(4 << 20, dtype=torch.uint8)
        heap.memory_available_bytes = lambda: 0
        third = group.allocate_tensor(2 << 20, dtype=torch.uint8)
        heap.memory_available_bytes = kept[1]
        fourth = group.allocate_tensor(3 << 20, dtype=torch.uint8)
        there = [_lies_in_the_heap(x, group) for x in (first, second, third, fourth)]
        del first, fourth
        whole = group.allocate_tensor(4 << 20, dtype=torch.uint8)
        return [*there, _lies_in_the_heap(whole, group)]
    finally:
        heap.MOST_BYTES, heap.memory_available_bytes = kept


def test_tensors_that_do_not_fit_get_ordinary_memory(worlds: Worlds) -> None:
    assert worlds(2).run(_filled_up) == [[True, False, False, True, True]] * 2


def _outlived() -> tuple[bool, float]:
    import torch
    import torch.distributed as dist

    group: Any = dist.new_group(backend="ringtree")
    x = group.allocate_tensor(1 << 20, dtype=torch.float32).fill_(1)
    there = _lies_in_the_heap(x, group)
    dist.barrier(group)
    dist.destroy_process_group(group)
    del group
    gc.collect()
    return there, float(x.mul_(2).sum())


def test_tensors_outlive_their_group(worlds: Worlds) -> None:
    assert worlds(2).run(_outlived) == [(True, 2.0 * (1 << 20))] * 2


def _alone() -> tuple[bool, list[str]]:
    """Only rank 0 allocates; then all communicate."""
    import torch
    import torch.distributed as dist

    from ringtree.runtime.communicator.windows import heap

    heap.PATIENCE_S = 0.5
    group: Any = dist.new_group(backend="ringtree")
    made = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if dist.get_rank() == 0:
            made = group.allocate_tensor(100_000, dtype=torch.float32)
            again = group.allocate_tensor(100_000, dtype=torch.float32)
            assert again.numel() == 100_000
    x = torch.ones(100_000) if made is None else made.fill_(1)
    dist.all_reduce(x, group=group)
    return bool((x == dist.get_world_size()).all()), [str(w.message) for w in caught]


def test_a_rank_that_allocates_alone_gets_ordinary_memory(worlds: Worlds) -> None:
    (right, texts), (other, silent) = worlds(2).run(_alone)
    assert right
    assert other
    assert len(texts) == 1
    assert texts[0].startswith("no symmetric memory, so ordinary memory is used: rank 1 did not come")
    assert not silent
