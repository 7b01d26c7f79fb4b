"""Kernel modules and the service that programs on GPUs need."""

from __future__ import annotations

from ringtree.machines.sysfs import Sysfs

PEER_MEMORY = ("nvidia_peermem", "nv_peer_mem")
GDRCOPY = ("gdrdrv",)
NVIDIA = ("nvidia",)
MPS = "nvidia-cuda-mps"
"""The beginning of the daemon's and the server's names: the kernel keeps 15 characters."""
MPS_PIPES = "/tmp/nvidia-mps"


def loaded(sysfs: Sysfs, names: tuple[str, ...]) -> str:
    """The first of these modules that is loaded; "" where none is."""
    listed = {line.partition(" ")[0] for line in sysfs.text("proc/modules").splitlines()}
    return next((name for name in names if name in listed or sysfs.folder(f"sys/module/{name}")), "")


def mps(sysfs: Sysfs, pipes: str = "") -> str:
    """Whether NVIDIA's Multi-Process Service runs: "daemon" where its process is seen, "pipe" where its pipe is, which
    stays when the daemon is killed; "" for neither. `pipes`: CUDA_MPS_PIPE_DIRECTORY."""
    names = (sysfs.line(f"proc/{process}/comm") for process in sysfs.folder("proc") if process.isdecimal())
    if any(name.startswith(MPS) for name in names):
        return "daemon"
    return "pipe" if "control" in sysfs.folder((pipes or MPS_PIPES).strip("/")) else ""
