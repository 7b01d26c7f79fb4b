"""The reference engine's one-sided access: peers' memory is this process's own, and signals are counted in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree.errors import TimedOut

if TYPE_CHECKING:
    from ringtree.runtime.engines.reference.group import Group

INDICES = 8


class Signals:
    """The part of a seat that is about one-sided access; see ringtree._native.Group for the contract."""

    group: Group
    rank: int

    def signal(self, peer: int, index: int) -> None:
        with self.group.changed:
            self.group.raise_failure(self.rank)
            self.group.signals[self._line(self.rank, peer, index)] += 1
            self.group.changed.notify_all()

    def wait_signal(self, peer: int, index: int, count: int, timeout_s: float) -> None:
        group, line = self.group, self._line(peer, self.rank, index)
        with group.changed:
            what = f"rank {group.names[peer]} in wait_signal, index {index}"
            if not group.wait(
                self.rank, lambda: group.signals[line] >= count, what, lambda: (peer,), timeout_s, harmless=True
            ):
                raise TimedOut(f"rank {group.names[self.rank]} waited {timeout_s:g} s for {what}")
            group.signals[line] -= count

    def _line(self, sender: int, receiver: int, index: int) -> tuple[int, int, int]:
        ranks = len(self.group.names)
        peer = receiver if sender == self.rank else sender
        if not 0 <= peer < ranks:
            raise ValueError(f"peer {peer} of {ranks} ranks")
        if not 0 <= index < INDICES:
            raise ValueError(f"signal {index}: expected 0..{INDICES - 1}")
        return sender, receiver, index
