"""What a program asks of the bits of its sums, through torch: by the group behind, and by the environment."""

from __future__ import annotations

from typing import Any

import pytest

from ringtree import balanced_sum
from tests.torch_backend.conftest import Worlds
from tests.torch_backend.world import World


def _part(number: int, dtype: Any) -> Any:
    import torch

    return (torch.rand(1000, generator=torch.Generator().manual_seed(number)) * 3 - 1).to(dtype)


def _share(dtype: Any, parts: int = 8) -> Any:
    import torch.distributed as dist

    each = parts // dist.get_world_size()
    return balanced_sum(_part(number, dtype) for number in range(each * dist.get_rank(), each * (dist.get_rank() + 1)))


def _reduced(name: str) -> list[bytes]:
    """Bits of the sum of all parts, in the default group and one made from it."""
    import torch
    import torch.distributed as dist

    found = []
    for group in (None, dist.new_group()):
        x = _share(getattr(torch, name))
        dist.all_reduce(x, group=group)
        found.append(x.view(torch.uint8).numpy().tobytes())
        y = _share(getattr(torch, name))
        work = dist.all_reduce(y, group=group, async_op=True)
        assert work is not None and work.wait()
        assert torch.equal(x, y)
    return found


def _asked(name: str, **given: Any) -> list[bytes]:
    import ringtree.torch_backend

    behind = ringtree.torch_backend.communicator()
    behind.set_reductions(**given)
    try:
        return _reduced(name)
    finally:
        behind.set_reductions()


def _balanced(name: str) -> list[bytes]:
    return _asked(name, deterministic="ranks")


def _rounded_once(name: str) -> list[bytes]:
    return _asked(name, accumulate="float32")


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_two_and_four_ranks_have_the_same_bits(worlds: Worlds, name: str) -> None:
    import torch

    want = balanced_sum(_part(number, getattr(torch, name)) for number in range(8)).view(torch.uint8).numpy().tobytes()
    for ranks in (2, 4):
        for found in worlds(ranks).run(_balanced, name):
            assert set(found) == {want}


def _exact() -> Any:
    """The sum of the ranks' contributions, rounded once."""
    import torch
    import torch.distributed as dist

    rows = [torch.empty(1000, dtype=torch.bfloat16) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, _share(torch.bfloat16))
    return sum(row.double() for row in rows).to(torch.float32).to(torch.bfloat16).view(torch.uint8).numpy().tobytes()


def test_bfloat16_is_rounded_once(worlds: Worlds) -> None:
    """The exact sum of four such numbers is a float32, so that it is rounded once here, too."""
    for want, found in zip(worlds(4).run(_exact), worlds(4).run(_rounded_once, "bfloat16"), strict=True):
        assert set(found) == {want}


def test_the_environment_asks_for_all_groups() -> None:
    import torch

    want = balanced_sum(_part(number, torch.bfloat16) for number in range(8)).view(torch.uint8).numpy().tobytes()
    world = World(4, variables={"RINGTREE_DETERMINISTIC": "ranks"})
    try:
        assert {bits for found in world.run(_reduced, "bfloat16") for bits in found} == {want}
    finally:
        world.close()
