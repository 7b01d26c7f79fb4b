"""The ranks as a torch DeviceMesh, its axes by name, and the groups along several of them at once."""

from __future__ import annotations

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from ringtree.training.layout import AXES, JOINED, Layout


class Mesh:
    """mesh["tp"], mesh["data"]: what torch divides a model over. All ranks of the default group come to make it."""

    def __init__(self, layout: Layout) -> None:
        self.whole = init_device_mesh("cpu", tuple(getattr(layout, axis) for axis in AXES), mesh_dim_names=AXES)
        self._parts: dict[str, DeviceMesh] = {axis: self.whole[axis] for axis in AXES}
        self._parts |= {name: self.whole[axes]._flatten(name) for name, axes in JOINED.items()}

    def __getitem__(self, name: str) -> DeviceMesh:
        return self._parts[name]

    def group(self, name: str) -> dist.ProcessGroup:
        return self[name].get_group()
