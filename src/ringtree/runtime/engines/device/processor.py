"""The interface of what runs programs on arrays in its own memory: a GPU, or this machine's processor in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ringtree.runtime.engines.device.element_types import DeviceTypes
from ringtree.runtime.engines.device.encoding import Pause

if TYPE_CHECKING:
    from ringtree.price import Devices


class Ending(NamedTuple):
    """The end of a call: 0 well, else late, stopped or another than a peer's (csrc/device/program.h, Outcome), at which
    peer and instruction; of a mismatch the peer's digest."""

    outcome: int
    peer: int
    instruction: int
    block: int
    print: int


FINE, LATE, STOPPED, MISMATCH = range(4)


class Launched(Protocol):
    """The facts of a program that is launched."""

    @property
    def types(self) -> DeviceTypes | None:
        """The arithmetic of its reductions; None: it has none."""
        ...

    @property
    def blocks(self) -> int:
        """The number of thread blocks."""
        ...

    @property
    def flagged(self) -> bool:
        """Whether it is a small call's, whose messages are flagged."""
        ...

    @property
    def threads(self) -> int:
        """The number of a block's threads."""
        ...

    @property
    def windows(self) -> int:
        """The number of its runs, each on a window of every chunk."""
        ...

    @property
    def length(self) -> int:
        """The number of its instructions."""
        ...

    @property
    def pauses(self) -> tuple[Pause, ...]:
        """The instructions before which messages must have come."""
        ...

    @property
    def announced(self) -> int:
        """The plan of the host's group by which the call is announced."""
        ...

    @property
    def sent(self) -> dict[int, int]:
        """The number of messages to each peer in a window."""
        ...


class DeviceProcessor(Protocol):
    """Memory, and calls in it. Addresses are the processor's."""

    blocks: int
    """The most thread blocks of a call."""
    costs: Devices | None
    """The costs of calls here, equal on all ranks; None: as in the host's memory."""
    most_flagged_bytes: int
    """Bytes of a call up to which its messages travel in flagged words, and none is read where it lies."""
    runs_ahead: bool
    """Whether `launch` returns before the call has ended."""
    native: Any
    """The launches of this rank, counted, and those that native calls make: a ringtree._native.DeviceCalls."""

    def take(self, nbytes: int) -> int:
        """The address of zeroed memory of this rank's own, kept until `close`."""
        ...

    def share(self, nbytes: int) -> list[int]:
        """The addresses, here, of zeroed memory that each rank of the group takes of its own; returns when all have."""
        ...

    def write(self, address: int, data: bytes) -> None:
        """Copies bytes of the host into memory, before any later call."""
        ...

    def read(self, address: int, nbytes: int) -> bytes:
        """A copy of memory, after all calls."""
        ...

    @property
    def status(self) -> int:
        """The address of the memory that calls write how they ended to."""
        ...

    def ending(self) -> Ending:
        """The end of the last call that failed; FINE where none has."""
        ...

    def stop(self) -> None:
        """Ends all calls that wait, and later ones."""
        ...

    least_lying_bytes: int
    """Bytes of a call's messages together below which they are staged, and not read where they lie."""
    takes_turns: bool
    """Whether ranks share a processor in turns: no call waits for another rank's; between its parts the caller's later
    work does."""
    stop_word: int
    """The address of the word that calls look at while they wait."""
    ended_word: int
    """The address of the word that calls number themselves in when they end."""
    tolls: int
    """The address, in this rank's memory, of the counts that are waited for then."""

    def look(self) -> None:
        """Finds how many calls have ended, for `native.ended` and `native.idle`."""
        ...

    def awaits(self, peer: int) -> bool:
        """Whether the caller's later work waits for messages of a peer."""
        ...

    def launch(self, call: bytes, plan: Launched) -> None:
        """Begins a call, in order with the caller's own work; it may end later."""
        ...

    def kernel(self, types: DeviceTypes | None, flagged: bool) -> int:
        """The function that `launch` launched for such types."""
        ...

    def mark(self) -> Any:
        """A mark behind all calls so far."""
        ...

    def reached(self, mark: Any) -> bool:
        """Whether all calls before the mark have ended."""
        ...

    def await_mark(self, mark: Any) -> None:
        """Lets the caller's own later work begin after the mark; on a host, waits."""
        ...

    def close(self) -> None:
        """Gives the memory back."""
        ...
