"""fully_shard: parameters are DTensors, cut along their first axis, module by module."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.utils.checkpoint import checkpoint

from tests.torch_backend.parallel.training import (
    Transformer,
    adam,
    alone,
    loss_of,
    same,
    sentences,
    sgd,
    share,
    state,
    train,
    transformer,
)


def sharded(seed: int = 0, mesh: DeviceMesh | None = None, **options: Any) -> Transformer:
    """Its blocks each, and what is outside of them."""
    mesh = mesh or init_device_mesh("cpu", (dist.get_world_size(),))
    model = transformer(seed)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **options)
    fully_shard(model, mesh=mesh, **options)
    return model


def whole(model: nn.Module) -> dict[str, Tensor]:
    found = {name: p.detach() for name, p in model.named_parameters()}
    return {name: p.full_tensor() if isinstance(p, DTensor) else p for name, p in found.items()}


def _trains(clip: float | None = None, tolerance: float = 2e-5, **options: Any) -> Transformer:
    model = sharded(**options)
    train(model, share(sentences()), clip=clip)
    same(whole(model), alone(sentences(), clip=clip), tolerance)
    return model


def nested() -> None:
    model = _trains()
    assert isinstance(model, FSDPModule)
    assert all(p.placements == (Shard(0),) for p in model.parameters())


def kept_after_forward() -> None:
    _trains(reshard_after_forward=False)


def resharded_to_pairs() -> None:
    """After the forward pass a rank keeps what two share: each pair has all."""
    _trains(reshard_after_forward=2 if dist.get_world_size() > 2 else True)


def of_one_layer() -> None:
    """Of 5 rows: uneven shards, and with 4 ranks an empty one for a bias of 3."""

    def make() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(16, 5), nn.Linear(5, 3))

    model, reference = make(), make()
    fully_shard(model)
    x, y = torch.randn(8, 16, generator=torch.Generator().manual_seed(1)), torch.arange(8) % 3
    train(model, share([(x, y)] * 3))
    train(reference, [(x, y)] * 3)
    same(whole(model), state(reference))


def mixed_precision() -> None:
    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    _trains(mp_policy=half, tolerance=0.05)


def reduced_in_bfloat16() -> None:
    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, cast_forward_inputs=False)
    _trains(mp_policy=half, tolerance=0.05)


def clipped() -> None:
    _trains(clip=0.1)


def hybrid() -> None:
    """HSDP: sharded in pairs, replicated across them."""
    mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("replicate", "shard"))
    _trains(mesh=mesh, clip=0.1)


def accumulated() -> None:
    """Gradients stay whole until the last part of a batch."""
    model = sharded()
    stepper = sgd(model.parameters())
    for x, y in share(sentences()):
        stepper.zero_grad()
        for part in range(2):
            model.set_requires_gradient_sync(part == 1)
            (loss_of(model, (x.chunk(2)[part], y.chunk(2)[part])) / 2).backward()
        stepper.step()
    same(whole(model), alone(sentences()))


def accumulated_without_resharding() -> None:
    model = sharded()
    stepper = sgd(model.parameters())
    for x, y in share(sentences()):
        stepper.zero_grad()
        for part in range(2):
            last = part == 1
            model.set_is_last_backward(last)
            model.set_reshard_after_backward(last)
            (loss_of(model, (x.chunk(2)[part], y.chunk(2)[part])) / 2).backward()
        stepper.step()
    same(whole(model), alone(sentences()))


def prefetched() -> None:
    """All-gathers of the next block issued before this one's forward and backward."""
    model = sharded()
    first, second = model.blocks
    first.set_modules_to_forward_prefetch([second])
    second.set_modules_to_backward_prefetch([first])
    model.unshard(async_op=True)
    train(model, share(sentences()))
    same(whole(model), alone(sentences()))


def checkpointed() -> None:
    model = sharded()
    for block in model.blocks:
        inner = block.forward
        block.forward = lambda x, inner=inner: checkpoint(inner, x, use_reentrant=False)
    train(model, share(sentences()))
    same(whole(model), alone(sentences()))


def offloaded() -> None:
    _trains(offload_policy=CPUOffloadPolicy(pin_memory=False))


def from_one_rank() -> None:
    """Rank 0's whole state dict, sent to models whose parameters were never filled."""
    kept = alone(sentences()) if dist.get_rank() == 0 else {}
    with torch.device("meta"):
        model = Transformer()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    model.to_empty(device="cpu")
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, kept, options=options)
    same(whole(model), alone(sentences()))
    back = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if dist.get_rank() == 0:
        same(back, alone(sentences()))


def with_adam() -> None:
    model = sharded()
    train(model, share(sentences()), adam)
    same(whole(model), alone(sentences(), optimizer=adam))


def memory_of_the_group() -> None:
    """Buffers of the collectives from the group's own memory."""
    model = sharded()
    for module in (model, *model.blocks):
        module.set_allocate_memory_from_process_group_for_comm(True)
    train(model, share(sentences()))
    same(whole(model), alone(sentences()))
