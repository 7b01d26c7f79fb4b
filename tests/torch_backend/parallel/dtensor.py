"""DTensor: a tensor cut, copied or unsummed over a mesh, and the results of operations, against plain tensors."""

from __future__ import annotations

import itertools

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    ones,
)
from torch.distributed.tensor.experimental import local_map

from tests.torch_backend.parallel.training import same, state, transformer

CUTS: list[Placement] = [Replicate(), Shard(0), Shard(1)]


def _line() -> DeviceMesh:
    return init_device_mesh("cpu", (dist.get_world_size(),))


def _grid() -> DeviceMesh:
    return init_device_mesh("cpu", (2, dist.get_world_size() // 2))


def _whole(rows: int = 8, columns: int = 12) -> torch.Tensor:
    return torch.arange(float(rows * columns)).reshape(rows, columns).sin()


def distributed() -> None:
    """Of uneven shards too: 7 rows, 5 columns, and 3 rows where 4 ranks have none for the last."""
    for mesh, shape in itertools.product((_line(), _grid()), ((8, 12), (7, 5), (3, 1))):
        for placements in itertools.product(CUTS, repeat=mesh.ndim):
            x = _whole(*shape)
            given = x if dist.get_rank() == 0 else torch.zeros_like(x)  # rank 0's counts
            assert torch.equal(distribute_tensor(given, mesh, placements).full_tensor(), x), (placements, shape)


def redistributed() -> None:
    """From every placement to every other, on a line and on a grid."""
    for mesh in (_line(), _grid()):
        for shape, before in itertools.product(((8, 12), (7, 5)), itertools.product(CUTS, repeat=mesh.ndim)):
            x = distribute_tensor(_whole(*shape), mesh, before)
            for after in itertools.product(CUTS, repeat=mesh.ndim):
                y = x.redistribute(placements=after)
                expected = distribute_tensor(_whole(*shape), mesh, after)
                assert y.placements == after and torch.equal(y.to_local(), expected.to_local()), (before, after)


def summed_up() -> None:
    """A sum that was not made yet: made everywhere, or of each rank's part."""
    mesh, n = _line(), dist.get_world_size()
    for reduce_op, expected in (("sum", n * (n + 1) / 2), ("avg", (n + 1) / 2), ("max", n), ("min", 1), ("product", 0)):
        local = torch.full((5, 3), float(dist.get_rank() + (reduce_op != "product")))
        x = DTensor.from_local(local, mesh, [Partial(reduce_op)])
        for after in CUTS:
            y = x.redistribute(placements=[after])
            assert torch.equal(y.full_tensor(), torch.full((5, 3), float(expected))), (reduce_op, after)


def multiplied() -> None:
    """Matrix products of all placements, and their gradients."""
    mesh = _line()
    for a_cut, b_cut in itertools.product(CUTS, CUTS):
        a, b = _whole(8, 12).requires_grad_(), _whole(12, 4).requires_grad_()
        (a @ b).square().sum().backward()
        x = distribute_tensor(_whole(8, 12), mesh, [a_cut]).requires_grad_()
        y = distribute_tensor(_whole(12, 4), mesh, [b_cut]).requires_grad_()
        (x @ y).square().sum().backward()
        torch.testing.assert_close(x.grad.full_tensor(), a.grad)
        torch.testing.assert_close(y.grad.full_tensor(), b.grad)


def operated_on() -> None:
    mesh = _line()
    functions = (
        lambda x: x.softmax(-1),
        lambda x: x.sum(0),
        lambda x: x.mean(),
        lambda x: x.max(),
        lambda x: x.var(1),
        lambda x: x.t().contiguous(),
        lambda x: torch.cat([x, x * 2], dim=1),
        lambda x: x.view(-1),
        lambda x: x.norm(),
        lambda x: x.argmax(),
        lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
        lambda x: x[1:5],
        lambda x: x.abs().cumsum(0),
        lambda x: x.topk(2, dim=1).values,
    )
    for k, function in enumerate(functions):
        for cut in CUTS:
            got = function(distribute_tensor(_whole(), mesh, [cut]))
            torch.testing.assert_close(
                got.full_tensor(), function(_whole()), msg=lambda message, k=k: f"{k}: {message}"
            )


def of_other_types() -> None:
    """Numbers of all kinds travel; those that no sum is made of, too."""
    mesh = _line()
    for dtype in (torch.bfloat16, torch.float64, torch.int32, torch.uint8, torch.bool, torch.complex64):
        x = (_whole() * 3).to(dtype)
        cut = distribute_tensor(x, mesh, [Shard(0)])
        assert torch.equal(cut.full_tensor(), x), dtype
        assert torch.equal(cut.redistribute(placements=[Shard(1)]).full_tensor(), x), dtype


def made_in_place() -> None:
    mesh = _line()
    assert torch.equal(ones((5, 3), device_mesh=mesh, placements=[Shard(0)]).full_tensor(), torch.ones(5, 3))


def in_modules() -> None:
    """distribute_module: parameters copied from rank 0."""
    model = transformer(dist.get_rank())
    spread = distribute_module(model, _line())
    same({name: p.full_tensor() for name, p in state(spread).items()}, state(transformer(0)))


def mapped_locally() -> None:
    mesh = _line()
    doubled = local_map(
        lambda x: x * 2,
        out_placements=[Shard(0)],
        in_placements=([Shard(0)],),
        device_mesh=mesh,
        redistribute_inputs=True,
    )
    assert torch.equal(doubled(distribute_tensor(_whole(), mesh, [Shard(1)])).full_tensor(), _whole() * 2)


def meshes() -> None:
    """Grids, their rows and columns, and the flat world of both."""
    n, me = dist.get_world_size(), dist.get_rank()
    mesh = init_device_mesh("cpu", (2, n // 2), mesh_dim_names=("dp", "tp"))
    assert mesh["dp"].size() == 2 and mesh["tp"].size() == n // 2
    assert tuple(mesh.get_coordinate()) == (me // (n // 2), me % (n // 2))
    total = torch.tensor([float(me)])
    dist.all_reduce(total, group=mesh.get_group("tp"))
    dist.all_reduce(total, group=mesh.get_group("dp"))
    assert total.item() == n * (n - 1) / 2
    flat = mesh["dp", "tp"]._flatten("all")
    assert flat.size() == n and dist.get_process_group_ranks(flat.get_group()) == list(range(n))
    from_group = DeviceMesh.from_group(mesh.get_group("dp"), "cpu")
    assert distribute_tensor(_whole(), from_group, [Shard(0)]).to_local().shape == (4, 12)
