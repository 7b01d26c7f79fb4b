"""Short tests of ours on the harness classes that PyTorch's tests of DTensor, FSDP and the like are written on.

Those tests are not in its wheel; their harnesses are, with models and comparisons: `_test_op`, `_test_fsdp_parity`. A
harness that names Gloo, and no other backend, is given ours where the face is our own.
"""

from __future__ import annotations

import copy
import os
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.distributed.fsdp import ShardingStrategy, fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.testing._internal import common_fsdp
from torch.testing._internal.common_distributed import DistributedTestBase, MultiProcContinuousTest
from torch.testing._internal.common_fsdp import DEVICEInitMode, FSDPInitMode, FSDPTest, FSDPTestContinuous
from torch.testing._internal.distributed._shard.sharded_tensor import ShardedTensorTestBase
from torch.testing._internal.distributed._tensor.common_dtensor import (
    DTensorContinuousTestBase,
    DTensorTestBase,
    ModelArgs,
    Transformer,
    with_comms,
)

from tests.torch_backend.suite.ranks import Forked

BACKEND = os.environ["BACKEND"]


def _meet(case: Any) -> None:
    """Makes the default group of a test's ranks."""
    where = f"file://{case.file_name}"
    dist.init_process_group(BACKEND, world_size=case.world_size, rank=case.rank, init_method=where)


class OnDTensorTestBase(Forked, DTensorTestBase):
    if BACKEND != "gloo":

        def init_pg(self, eager_init: bool, backend: str | None = None) -> None:
            """The harness's knows Gloo alone of those that serve CPUs."""
            _meet(self)

    @with_comms
    def test_redistribute(self) -> None:
        mesh = self.build_device_mesh()
        full = torch.arange(60.0).view(10, 6)
        for first in Shard(0), Shard(1), Replicate():
            x = distribute_tensor(full, mesh, [first])
            for second in Shard(0), Shard(1), Replicate():
                self.assertEqual(x.redistribute(mesh, [second]).full_tensor(), full)
        for reduction in "sum", "avg", "max":
            x = DTensor.from_local(full * (self.rank + 1), mesh, [Partial(reduction)])
            factor = {"sum": 10.0, "avg": 2.5, "max": 4.0}[reduction]
            for second in Shard(0), Shard(1), Replicate():
                self.assertEqual(x.redistribute(mesh, [second]).full_tensor(), full * factor)

    @with_comms
    def test_operators(self) -> None:
        mesh = self.build_device_mesh()
        torch.manual_seed(0)
        x, y = torch.rand(8, 12), torch.rand(12, 8)
        self._test_op(mesh, torch.mm, x, y)
        self._test_op(mesh, torch.add, x, torch.rand(8, 12))
        for reduction in torch.sum, torch.mean, torch.max:
            self._test_op(mesh, reduction, x)
        self._test_op(mesh, torch.softmax, x, dim=1)

    @with_comms
    def test_transformer_in_tensor_parallel(self) -> None:
        mesh = self.build_device_mesh()
        for sequence_parallel in False, True:
            torch.manual_seed(0)
            model = Transformer(ModelArgs(dropout_p=0.0))
            tokens = torch.randint(8, (4, 16))
            expected = model(tokens)
            expected.sum().backward()
            split = Transformer.parallelize(copy.deepcopy(model), mesh, sequence_parallel, local_output_for_attn=True)
            split.zero_grad()
            result = split(tokens)
            result.sum().backward()
            self.assertEqual(result, expected)
            for ours, theirs in zip(split.parameters(), model.parameters(), strict=True):
                grad = ours.grad.full_tensor() if isinstance(ours, DTensor) else ours.grad
                self.assertEqual(grad, theirs.grad)


class OnDTensorContinuousTestBase(DTensorContinuousTestBase):
    world_size = 2

    @classmethod
    def backend_str(cls) -> str:
        return BACKEND

    def test_a_matrix_product(self) -> None:
        mesh = self.build_device_mesh()
        self._test_op(mesh, torch.mm, torch.ones(4, 6), torch.ones(6, 4))

    def test_a_sum(self) -> None:
        x = distribute_tensor(torch.arange(10.0), self.build_device_mesh(), [Shard(0)])
        self.assertEqual(x.sum().full_tensor(), torch.tensor(45.0))


class OnMultiProcContinuousTest(MultiProcContinuousTest):
    world_size = 2

    @classmethod
    def backend_str(cls) -> str:
        return BACKEND

    @classmethod
    def device_type(cls) -> str:
        return "cpu"

    def test_all_reduce(self) -> None:
        x = torch.full((3,), float(self.rank))
        dist.all_reduce(x)
        self.assertEqual(x, torch.ones(3))

    def test_it_is_the_same_group_again(self) -> None:
        dist.barrier()
        self.assertEqual(dist.get_backend(), BACKEND)


class OnDistributedTestBase(Forked, DistributedTestBase):
    @property
    def world_size(self) -> int:
        return 2

    def backend(self, device: str) -> str:
        return BACKEND

    def test_broadcast(self) -> None:
        group = self.create_pg("cpu")
        x = torch.full((3,), float(self.rank))
        dist.broadcast(x, 1, group=group)
        self.assertEqual(x, torch.ones(3))


class OnShardedTensorTestBase(Forked, ShardedTensorTestBase):
    if BACKEND != "gloo":

        def init_pg(self, backend: str = BACKEND) -> None:
            _meet(self)

    def test_gather(self) -> None:
        from torch.distributed._shard import sharded_tensor
        from torch.distributed._shard.sharding_spec import ChunkShardingSpec

        self.init_comms(init_rpc=False, backend=BACKEND)
        spec = ChunkShardingSpec(0, [f"rank:{rank}/cpu" for rank in range(self.world_size)])
        shards = sharded_tensor.ones(spec, 10, 4)
        full = torch.zeros(10, 4) if self.rank == 0 else None
        shards.gather(0, full)
        if full is not None:
            self.assertEqual(full, torch.ones(10, 4))
        self.destroy_comms(destroy_rpc=False)


ON_CPU = {"device_id": torch.device("cpu")}


class TwoDevices:
    """For FSDP's harnesses, which skip where there are fewer accelerators than ranks: here ranks are CPU's."""

    @classmethod
    def setUpClass(cls) -> None:
        patch.object(torch.accelerator, "device_count", lambda: 2).start()
        patch.object(common_fsdp, "DISTRIBUTED_BACKEND", BACKEND).start()
        super().setUpClass()


class OnFSDPTest(TwoDevices, Forked, FSDPTest):
    @property
    def world_size(self) -> int:
        return 2

    def test_fsdp1_beside_ddp(self) -> None:
        for model in common_fsdp.NestedWrappedModule, common_fsdp.TransformerWithSharedParams:
            for strategy in ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD:
                self._test_fsdp_parity(
                    model, FSDPInitMode.RECURSIVE, DEVICEInitMode.DEVICE_BEFORE, sharding_strategy=strategy, **ON_CPU
                )

    def test_fsdp2_beside_one_process(self) -> None:
        torch.manual_seed(0)
        whole = common_fsdp.MLPStack(8)
        split = copy.deepcopy(whole)
        for layer in split:
            fully_shard(layer)
        fully_shard(split)
        for step in range(3):
            x = torch.randn(4, 8, generator=torch.Generator().manual_seed(step))
            for model in whole, split:
                model.zero_grad()
                model(x).sum().backward()
            common_fsdp.check_sharded_parity(self, whole, split)


class OnFSDPTestContinuous(TwoDevices, FSDPTestContinuous):
    world_size = 2

    def test_fsdp1_beside_ddp(self) -> None:
        self._test_fsdp_parity(
            common_fsdp.NestedWrappedModule, FSDPInitMode.RECURSIVE, DEVICEInitMode.DEVICE_BEFORE, **ON_CPU
        )

    def test_mixed_precision(self) -> None:
        from torch.distributed.fsdp import MixedPrecisionPolicy

        model = fully_shard(torch.nn.Linear(4, 4), mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.bfloat16))
        model(torch.ones(2, 4)).sum().backward()
        self.assertEqual(model.weight.grad.full_tensor(), torch.full((4, 4), 2.0))
