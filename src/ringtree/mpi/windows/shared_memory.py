"""Memory that the ranks of one host share, one part behind another in the order of their ranks."""

from __future__ import annotations

import mmap
import os

import numpy as np

from ringtree.mpi.types.memory import NumpyArray
from ringtree.runtime.bootstrap.local.shared_memory import reserve
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.communicator.composite import CompositeCall


def shared(comm: Communicator, nbytes: int) -> list[NumpyArray]:
    """The parts of all ranks, zeroed, of which this one's has `nbytes` bytes; all ranks call it. Each reserves its own,
    on the NUMA node that it runs on. OSError: if the ranks share no host, or there is no room. The memory has no name,
    and ends with the last array over it."""
    if len(set(comm.hosts)) > 1:
        raise OSError(
            "Allocate_shared over several hosts: expected the ranks of one, as of Split_type(COMM_TYPE_SHARED)"
        )
    with CompositeCall(comm._fail, "Allocate_shared"):
        sizes = comm.all_gather_object(nbytes)
        total = max(sum(sizes), 1)
        fd = _made(total) if comm.rank == 0 else None
        path, error = comm.broadcast_object((f"/proc/{os.getpid()}/fd/{fd[0]}", fd[1]) if fd else None, 0)
        memory = None
        if not error:
            try:
                memory = _mapped(path, -1 if fd is None else fd[0], sum(sizes[: comm.rank]), nbytes, total)
            except OSError as failure:
                error = f"rank {comm.rank}: {failure}"
        errors = [text for text in comm.all_gather_object(error) if text]  # all have mapped it, or failed
        if fd and fd[0] >= 0:
            os.close(fd[0])
    if errors or memory is None:
        raise OSError(f"no {total} bytes of shared memory: {errors[0]}; expected ranks that share a process namespace")
    line = np.frombuffer(memory, np.uint8)
    ends = np.cumsum(sizes).tolist()
    return [line[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def _mapped(path: str, own: int, begin: int, nbytes: int, total: int) -> mmap.mmap:
    """The memory of all ranks, in which this one's part exists. `own`: its descriptor on the rank that made it; -1
    elsewhere, where it is opened by `path`."""
    opened = own if own >= 0 else os.open(path, os.O_RDWR)
    try:
        if nbytes:
            os.posix_fallocate(opened, begin, nbytes)
        return mmap.mmap(opened, total)
    finally:
        if own < 0:
            os.close(opened)


def _made(nbytes: int) -> tuple[int, str]:
    """A descriptor of so much memory, for which there is room; or -1 and why not."""
    try:
        return reserve(0, "a window of Allocate_shared", nbytes, nbytes), ""
    except (OSError, MemoryError) as failure:
        return -1, str(failure)
