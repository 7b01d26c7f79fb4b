"""Kernel modules that GPUDirect and GPUs need."""

from __future__ import annotations

from ringtree.machines.sysfs import Sysfs

PEER_MEMORY = ("nvidia_peermem", "nv_peer_mem")
GDRCOPY = ("gdrdrv",)
NVIDIA = ("nvidia",)


def loaded(sysfs: Sysfs, names: tuple[str, ...]) -> str:
    """The first of these modules that is loaded; "" where none is."""
    listed = {line.partition(" ")[0] for line in sysfs.text("proc/modules").splitlines()}
    return next((name for name in names if name in listed or sysfs.folder(f"sys/module/{name}")), "")
