"""FullyShardedDataParallel, the wrapper: parameters cut among ranks, brought together for each use."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
    StateDictType,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

from tests.torch_backend.parallel.training import (
    Block,
    accumulate,
    alone,
    loss_of,
    same,
    sentences,
    share,
    state,
    train,
    transformer,
)

CPU = torch.device("cpu")


def _wrapped(seed: int = 0, **options: Any) -> FullyShardedDataParallel:
    policy = ModuleWrapPolicy({Block})
    return FullyShardedDataParallel(transformer(seed), auto_wrap_policy=policy, device_id=CPU, **options)


def _whole(model: FullyShardedDataParallel) -> dict[str, torch.Tensor]:
    with FullyShardedDataParallel.summon_full_params(model, writeback=False):
        names = {name.replace("_fsdp_wrapped_module.", ""): p for name, p in model.named_parameters()}
        return {name: p.detach().clone() for name, p in names.items()}


def _trains(clip: float | None = None, tolerance: float = 2e-5, **options: Any) -> FullyShardedDataParallel:
    model = _wrapped(**options)
    train(model, share(sentences()), clip=clip)
    same(_whole(model), alone(sentences(), clip=clip), tolerance)
    return model


def full_shard() -> None:
    _trains()


def shard_grad_op() -> None:
    _trains(sharding_strategy=ShardingStrategy.SHARD_GRAD_OP)


def no_shard() -> None:
    _trains(sharding_strategy=ShardingStrategy.NO_SHARD)


def original_parameters() -> None:
    _trains(use_orig_params=True, limit_all_gathers=True)


def hybrid() -> None:
    """Sharded in pairs, the same in each pair."""
    n = dist.get_world_size()
    mesh = dist.init_device_mesh("cpu", (n // 2, 2), mesh_dim_names=("replicate", "shard"))
    _trains(sharding_strategy=ShardingStrategy.HYBRID_SHARD, device_mesh=mesh)


def clipped() -> None:
    model, reference = _wrapped(), transformer()
    for batch, whole in zip(share(sentences()), sentences(), strict=True):
        for each, data in ((model, batch), (reference, whole)):
            each.zero_grad()
            loss_of(each, data).backward()
        got = model.clip_grad_norm_(0.1)
        expected = torch.nn.utils.clip_grad_norm_(reference.parameters(), 0.1)
        torch.testing.assert_close(got, expected)
        with torch.no_grad():
            for p in [*model.parameters(), *reference.parameters()]:
                p -= 0.2 * p.grad
    same(_whole(model), state(reference))


def no_sync() -> None:
    model = _wrapped()
    accumulate(model, share(sentences()), 2, model.no_sync)
    same(_whole(model), alone(sentences()))


def mixed_precision() -> None:
    """Parameters gathered and gradients reduced in bfloat16."""
    half = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    _trains(mixed_precision=half, tolerance=0.05)


def _state_of_type(kind: StateDictType) -> None:
    model = _wrapped()
    train(model, share(sentences()))
    with FullyShardedDataParallel.state_dict_type(model, kind):
        kept = model.state_dict()
    resumed = _wrapped(9)
    with FullyShardedDataParallel.state_dict_type(resumed, kind):
        resumed.load_state_dict(kept)
    same(_whole(resumed), alone(sentences()))


def full_state() -> None:
    _state_of_type(StateDictType.FULL_STATE_DICT)


def sharded_state() -> None:
    _state_of_type(StateDictType.SHARDED_STATE_DICT)


def local_state() -> None:
    _state_of_type(StateDictType.LOCAL_STATE_DICT)


def with_a_hook() -> None:
    """A hook in the place of the gradients' reduce_scatter."""

    def summed(_: Any, gradient: torch.Tensor, output: torch.Tensor) -> None:
        dist.reduce_scatter_tensor(output, gradient, dist.ReduceOp.SUM)
        output.div_(dist.get_world_size())

    model = _wrapped()
    model.register_comm_hook(None, summed)
    train(model, share(sentences()))
    same(_whole(model), alone(sentences()))
