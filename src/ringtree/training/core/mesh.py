"""The ranks as a torch DeviceMesh, its axes by name, and the groups along several of them at once."""

from __future__ import annotations

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

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
        for part in self._parts.values():
            as_patient(part.get_group())

    def __getitem__(self, name: str) -> DeviceMesh:
        return self._parts[name]

    def group(self, name: str) -> dist.ProcessGroup:
        """The process group of this rank along one axis."""
        return self[name].get_group()


def as_patient(group: dist.ProcessGroup) -> dist.ProcessGroup:
    """Gives a group the timeout of the default one, where torch gives it half an hour; returns it."""
    communicator(group).set_timeout(communicator().timeout_s)
    return group
