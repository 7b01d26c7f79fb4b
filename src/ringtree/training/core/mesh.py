"""The ranks as a torch DeviceMesh, its axes by name, and the groups along several of them at once."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, debug

from ringtree.torch_backend import communicator
from ringtree.training.core.layout import AXES, JOINED, ParallelLayout


class TrainingMesh:
    """torch's meshes mesh["tp"], mesh["data"], over which it divides a model. All ranks of the default group make it
    together."""

    def __init__(self, layout: ParallelLayout) -> None:
        self.whole = init_device_mesh("cpu", tuple(getattr(layout, axis) for axis in AXES), mesh_dim_names=AXES)
        self._parts: dict[str, DeviceMesh] = {axis: self.whole[axis] for axis in AXES}
        # torch has no public function, up to 2.13, for one group along several axes.
        self._parts |= {name: self.whole[axes]._flatten(name) for name, axes in JOINED.items()}
        groups = dict.fromkeys(as_patient(part.get_group()) for part in self._parts.values())
        # An axis of all ranks has the default group, which is not the mesh's own.
        self._made = [group for group in groups if group is not dist.group.WORLD]

    def __getitem__(self, name: str) -> DeviceMesh:
        return self._parts[name]

    def group(self, name: str) -> dist.ProcessGroup:
        """The process group of this rank along one axis."""
        return self[name].get_group()

    def close(self) -> None:
        """Closes the groups that the mesh made; those of others stay."""
        destroy(self._made)
        self._made = []
        _clear_cache()


def as_patient(group: dist.ProcessGroup) -> dist.ProcessGroup:
    """Gives a group the timeout of the default one, where torch gives it half an hour; returns it."""
    communicator(group).set_timeout(communicator().timeout_s)
    return group


def destroy(groups: Iterable[dist.ProcessGroup]) -> None:
    """Destroys groups that are still there: the end of the default group ends them all."""
    for group in groups:
        with suppress(ValueError):
            dist.destroy_process_group(group)


def _clear_cache() -> None:
    """Clears torch's cache of how operations divide tensors. It has the meshes of those before, and gives them to
    tensors of an equal mesh, with groups that are closed."""
    # torch has no public function, up to 2.13; its private ones differ between versions.
    with suppress(AttributeError):
        if hasattr(debug, "_clear_sharding_prop_cache"):
            debug._clear_sharding_prop_cache()
        else:
            DTensor._op_dispatcher.sharding_propagator.propagate_op_sharding.cache.cache_clear()
