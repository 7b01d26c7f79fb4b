"""Distributed checkpoints: saved by some ranks in shards, loaded by others, or by the same cut otherwise."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel as DDP

from tests.torch_backend.parallel.fsdp2 import sharded, whole
from tests.torch_backend.parallel.training import adam, alone, same, sentences, share, state, train, transformer


@contextmanager
def _folder() -> Iterator[Path]:
    """One for all ranks."""
    made = tempfile.TemporaryDirectory(prefix="ringtree-") if dist.get_rank() == 0 else None
    name = [made.name if made else ""]
    dist.broadcast_object_list(name)
    yield Path(name[0])
    dist.barrier()
    if made:
        made.cleanup()


class _Job(Stateful):
    """A model and its optimizer, as they are saved together."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.optimizer = model, adam(model.parameters())

    def train(self, batches: Any) -> None:
        train(self.model, batches, lambda _: self.optimizer)

    def state_dict(self) -> dict[str, Any]:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def load_state_dict(self, kept: dict[str, Any]) -> None:
        set_state_dict(self.model, self.optimizer, model_state_dict=kept["model"], optim_state_dict=kept["optimizer"])


def resumed() -> None:
    """FSDP2 and Adam: saved in the middle, and gone on with by a job that began otherwise."""
    batches = sentences(4)
    first, second = _Job(sharded()), _Job(sharded(9))
    first.train(share(batches[:2]))
    with _folder() as folder:
        dcp.save({"job": first}, checkpoint_id=folder)
        dcp.load({"job": second}, checkpoint_id=folder)
    second.train(share(batches[2:]))
    same(whole(second.model), alone(batches, optimizer=adam))


def resumed_under_another_mesh() -> None:
    """Saved by FSDP2 on a line, loaded by HSDP on a grid, and by DDP."""
    batches = sentences(4)
    first = _Job(sharded())
    first.train(share(batches[:2]))
    grid = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("replicate", "shard"))
    hybrid, ddp = _Job(sharded(9, grid)), _Job(DDP(transformer(8)))
    with _folder() as folder:
        dcp.save({"job": first}, checkpoint_id=folder)
        for second in (hybrid, ddp):
            dcp.load({"job": second}, checkpoint_id=folder)
            second.train(share(batches[2:]))
    same(whole(hybrid.model), alone(batches, optimizer=adam))
    same(state(ddp.model.module), alone(batches, optimizer=adam))


def asynchronous() -> None:
    """Written by a thread with a group of its own, while training goes on."""
    batches, group = sentences(4), dist.new_group()
    first, second = _Job(sharded()), _Job(sharded(9))
    first.train(share(batches[:2]))
    with _folder() as folder:
        saving = dcp.async_save({"job": first}, checkpoint_id=folder, process_group=group)
        first.train(share(batches[2:]))
        saving.result()
        dcp.load({"job": second}, checkpoint_id=folder)
    same(whole(first.model), alone(batches, optimizer=adam))
    second.train(share(batches[2:]))
    same(whole(second.model), alone(batches, optimizer=adam))
    dist.destroy_process_group(group)


def tensors() -> None:
    """Cut by rows when saved, by columns when loaded, with objects and plain tensors beside."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    x = torch.arange(35.0).reshape(7, 5)
    kept = {"x": distribute_tensor(x, mesh, [Shard(0)]), "step": 3, "y": torch.ones(2), "names": {"a", "b"}}
    with _folder() as folder:
        dcp.save(kept, checkpoint_id=folder)
        for cut in (Shard(1), Replicate(), Shard(0)):
            back: dict[str, Any] = {
                "x": distribute_tensor(torch.zeros(7, 5), mesh, [cut]),
                "step": 0,
                "y": torch.zeros(2),
                "names": None,
            }
            dcp.load(back, checkpoint_id=folder)
            assert isinstance(back["x"], DTensor) and torch.equal(back["x"].full_tensor(), x)
            assert (back["step"], back["names"], back["y"].tolist()) == (3, {"a", "b"}, [1, 1])


def of_a_missing_folder() -> None:
    """All ranks hear of it, and the group goes on."""
    try:
        dcp.load({"x": torch.zeros(1)}, checkpoint_id="/nowhere/at/all")
    except CheckpointException as error:
        assert "nowhere" in str(error), error
    else:
        raise AssertionError("a checkpoint that is not there was loaded")
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x.item() == dist.get_world_size()
