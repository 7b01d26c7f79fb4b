"""How torch learns that there is a backend "ringtree". Costs next to nothing: what serves a group is loaded with it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

NAME = "ringtree"


def register() -> None:
    """Tells torch.distributed of the backend; again does no harm."""
    try:
        import torch.distributed as dist
    except ImportError as error:
        raise ImportError(f"ringtree.torch_backend needs torch ({error}): pip install 'ringtree[torch]'") from None
    if dist.is_available():
        dist.Backend.register_backend(NAME, create, extended_api=True, devices=["cpu"])


def autoload() -> None:
    """What torch calls when it is imported: its entry points `torch.backends`. The import that finds this has
    registered."""


def create(options: Any, pg_options: Any) -> Any:
    """This rank's part of a new group, which its members make together. `options`: torch's
    _DistributedBackendOptions."""
    import torch.distributed as dist

    from ringtree.torch_backend.creation import join
    from ringtree.torch_backend.process_group import ProcessGroup

    timeout: timedelta = options.timeout
    ranks = options.global_ranks_in_group or range(options.group_size)
    world: Any = dist.group.WORLD if options.global_ranks_in_group else None
    parent = world.communicator if isinstance(world, ProcessGroup) else None
    joined = join(options.store, options.group_rank, tuple(ranks), timeout.total_seconds(), parent)
    group = ProcessGroup(joined, options)
    if parent is None:
        group.listen()
    return group
