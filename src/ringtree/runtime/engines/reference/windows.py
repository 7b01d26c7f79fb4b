"""The reference engine's windows: peers' memory is this process's own, and signals are counted in a table."""

from __future__ import annotations

import mmap
from ctypes import addressof, c_char, memmove
from typing import TYPE_CHECKING, Any

from ringtree.errors import TimedOut

if TYPE_CHECKING:
    from ringtree.runtime.engines.reference.group import ReferenceGroup

INDICES = 8


class ReferenceWindows:
    """Regions, windows and signals of an endpoint; see ringtree._native.Group for the contract."""

    group: ReferenceGroup
    rank: int
    ranks: int
    regions: list[Any]
    """The objects that keep the windows mapped."""
    windows: list[tuple[int, int]]
    """The address at which each window begins, and a rank's share of it in bytes."""

    def add_region(self, fd: int, nbytes: int, offset: int, reserved: int | None = None) -> int:
        memory = mmap.mmap(fd, nbytes)
        self.regions.append(memory)
        return addressof(c_char.from_buffer(memory)) + offset

    def in_region(self, address: int, nbytes: int) -> bool:
        begins = ((addressof(c_char.from_buffer(memory)), len(memory)) for memory in self.regions)
        return any(begin <= address <= address + nbytes <= begin + length for begin, length in begins)

    def add_window(self, fd: int, nbytes: int) -> tuple[int, int]:
        base = self.add_region(fd, nbytes * self.ranks, 0)
        self.windows.append((base, nbytes))
        return len(self.windows) - 1, base + self.rank * nbytes

    def put(self, window: int, offset: int, peer: int, source: int, nbytes: int) -> None:
        memmove(self._in_window(window, offset, peer, nbytes), source, nbytes)

    def get(self, window: int, offset: int, peer: int, target: int, nbytes: int) -> None:
        memmove(target, self._in_window(window, offset, peer, nbytes), nbytes)

    def _in_window(self, window: int, offset: int, peer: int, nbytes: int) -> int:
        self.group.raise_failure(self.rank)
        if not 0 <= window < len(self.windows):
            raise ValueError(f"window {window} of {len(self.windows)}")
        base, share = self.windows[window]
        if not 0 <= offset <= offset + nbytes <= share:
            raise ValueError(f"{nbytes} bytes from {offset} on in a window of {share}")
        return base + peer * share + offset

    def prefault(self, address: int, nbytes: int) -> None:
        """Pages come as they are touched."""

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
