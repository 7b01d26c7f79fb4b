"""A front end: the backend "ringtree" of torch.distributed.

    import ringtree.torch_backend  # once ringtree is installed, torch does this by itself
    torch.distributed.init_process_group("ringtree")

It serves tensors on the CPU and on CUDA devices, of ranks on one host or several. A process group is a Communicator
behind torch's names and conventions; the engine takes raw pointers, so nothing here is compiled against torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ringtree.torch_backend.registration import REPLACING, made_here, register, served

if TYPE_CHECKING:
    from datetime import timedelta
    from pathlib import Path

    import torch.distributed as dist

    from ringtree.runtime.communicator.communicator import Communicator

DUMPS = "ringtree.torch_backend.flight.dump"
"""Loaded with the first group, or when a dump is asked for: torch imports this file with itself."""

OVER = "ringtree.torch_backend.over_communicator"

__all__ = [
    "communicator",
    "communicators",
    "dump_flight_recorder",
    "group_of",
    "monitored_barrier",
    "register",
    "replace",
]


def communicator(group: dist.ProcessGroup | None = None) -> Communicator:
    """The communicator behind a process group of this backend, for calls that torch lacks: `trace()`, `counters()`,
    `chosen()`. Its collectives are in one order with the group's own. ValueError: if another backend serves the
    group."""
    behind: Communicator = _serving(group).communicator
    return behind


def group_of(communicator: Communicator) -> dist.ProcessGroup:
    """A process group of a communicator's ranks, for calls with `group=` and DistributedDataParallel: made without a
    store, also where there is no default group. All ranks call it. It is how training goes on with the group that
    `communicator.shrink()` or `grow()` returns, which closes those of the one before. torch does not know its ranks'
    numbers in the default group: name roots by `group_src` and `group_dst`."""
    made: dist.ProcessGroup = import_module(OVER).group_of(communicator)
    return made


def communicators() -> list[Communicator]:
    """The communicators behind all process groups of this backend in this process; all that it sends goes through
    them."""
    return [part.communicator for part in made_here]


def monitored_barrier(
    group: dist.ProcessGroup | None = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """torch.distributed's monitored_barrier, which torch reserves for Gloo: a barrier that names, to every rank that
    came, all that did not. The group goes on after that. A rank that is not in the group returns at once. TimedOut: if
    a rank has not come after `timeout` (default: the group's). ValueError: if another backend serves the group."""
    import torch.distributed as dist

    if group is not dist.GroupMember.NON_GROUP_MEMBER:
        _serving(group).monitored_barrier(timeout, wait_all_ranks)


def replace(name: str = "gloo") -> None:
    """Serves whoever asks torch for Gloo on the CPU, from now on and in this process, as RINGTREE_REPLACES=gloo does
    from the start: default groups, sub-groups, and the CPU's part of mixtures such as "cpu:gloo,cuda:nccl". Groups that
    are there remain Gloo's. All ranks call it, or none. A repeated call does no harm. ValueError for another name;
    RuntimeError where there is no native engine."""
    import_module(REPLACING).replace(name)


def dump_flight_recorder() -> Path | None:
    """Writes the last operations of this rank's groups, as is done when a call fails, and returns the file's path. None
    where nothing is recorded (TORCH_FR_BUFFER_SIZE=0), or it cannot be written: a line on standard error says why."""
    import torch.distributed as dist

    path: Path | None = import_module(DUMPS).dump(dist.get_rank())
    return path


def _serving(group: dist.ProcessGroup | None) -> Any:
    """The backend that serves a group of torch's (None: the default one). ValueError: if another backend serves it."""
    import torch.distributed as dist

    asked = dist.group.WORLD if group is None else group
    serving = served(asked)
    if serving is None:
        raise ValueError(f'{asked!r} is not a group of the backend ringtree: see init_process_group("ringtree")')
    return serving


register()
