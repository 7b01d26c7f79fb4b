"""A process group for torchft: its members are replicas, which come and go while the others train on.

    manager = torchft.Manager(pg=ringtree.torch_backend.torchft.ProcessGroupRingtree(), …)

torchft configures the group anew for every quorum; each has a communicator of its own, whose members meet as those of
any group of torch's do.
"""

from __future__ import annotations

from typing import Any

from torchft.process_group import ProcessGroupWrapper

from ringtree.torch_backend import process_group
from ringtree.torch_backend.creation import join


class ProcessGroupRingtree(ProcessGroupWrapper):
    """torchft's interface over a ringtree process group. `timeout`: of each wait, a timedelta, 60 s without."""

    def _create_pg(self, store: Any, rank: int, world_size: int) -> Any:
        timeout_s = self._timeout.total_seconds()
        made = process_group.ProcessGroup(join(store, rank, range(world_size), timeout_s), store, self._timeout)
        made._set_group_name(f"quorum {self._quorum_id}")
        made.listen()
        return made

    def getBackendName(self) -> str:
        """The name under which torchft registers the group."""
        return "torchft-ringtree"

    def abort(self, errored: bool = True) -> None:
        """Ends the calls under way and leaves the group; the next quorum makes another."""
        left = self._pg
        super().abort(errored)
        if left is not None:
            left._leave(0.0)

    def shutdown(self) -> None:
        """Leaves the group once this replica's calls in it have ended."""
        left = self._pg
        super().shutdown()
        if left is not None:
            left.shutdown()

    def errored(self) -> Exception | None:
        """The error with which the group failed, or that a replica of it has died; torchft then discards the step."""
        failed: Exception | None = self._pg.errored() if self._pg is not None else None
        return failed
