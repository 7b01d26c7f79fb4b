"""A process group over a communicator that is there, as the one that survivors of a death have made."""

from __future__ import annotations

from datetime import timedelta

import torch.distributed as dist

from ringtree.runtime.communicator.communicator import Communicator
from ringtree.torch_backend.process_group import ProcessGroup
from ringtree.torch_backend.registration import made_here


def group_of(communicator: Communicator) -> ProcessGroup:
    """See ringtree.torch_backend.group_of. The group has a communicator of its own, for it may be left while the other
    goes on."""
    own = communicator.group(range(communicator.size))
    made = ProcessGroup(own, dist.HashStore(), timedelta(seconds=own.timeout_s))
    made_here.add(made)
    made._set_group_name(f"over {own.key}")
    made.listen()
    return made
