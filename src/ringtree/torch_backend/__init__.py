"""A door: torch.distributed calls us, as the backend "ringtree".

    import ringtree.torch_backend  # once ringtree is installed, torch does this by itself
    torch.distributed.init_process_group("ringtree")

It serves CPU tensors of ranks on one machine. A process group is a Communicator behind torch's names and conventions;
the engine takes raw pointers, so nothing here is compiled against torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ringtree.torch_backend.registration import register, served

if TYPE_CHECKING:
    import torch.distributed as dist

    from ringtree.runtime.communicator import Communicator

__all__ = ["communicator", "register"]


def communicator(group: dist.ProcessGroup | None = None) -> Communicator:
    """The communicator behind a process group of this backend, for what torch has no name for: `trace()`, `counters()`,
    `chosen()`. Its collectives are in one order with the group's own."""
    import torch.distributed as dist

    asked: Any = dist.group.WORLD if group is None else group
    serving = served(asked)
    if serving is None:
        raise ValueError(f'{asked!r} is not a group of the backend ringtree: see init_process_group("ringtree")')
    made: Communicator = serving.communicator
    return made


register()
