"""The methods of a rank's endpoint in a group, in the narrow protocols that its users need.

ringtree._native.Group states the contract method by method. A user of one concern takes that protocol only, so that a
test, a network or a device can serve one without the others.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

ARRIVAL = 6
"""The kind, among recorded events, of a message's arrival from another host: of the WAIT that follows. No Event."""

MessageOperation = tuple[bool, int, int, int, int, int, bool]
"""(is it a send, peer, tag, address, bytes, type's code, and of a receive: may the message be shorter; of a send: is it
synchronous), as engines take them. A code from 256 on is of a type that is only moved, and fits its own alone."""


class Land(NamedTuple):
    """A message that may land: the instruction that makes its bytes, the receiver, and the first of its output's
    elements that they are."""

    instruction: int
    peer: int
    offset: int


class Recorded(NamedTuple):
    """The events that an endpoint recorded, as Group.recorded returns them. `calls`: (text, digest) of each number in
    the column `call`."""

    kind: NDArray[np.int32]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    nbytes: NDArray[np.int64]
    peer: NDArray[np.int32]
    chunk: NDArray[np.int32]
    call: NDArray[np.int32]
    calls: list[tuple[str, int]]
    dropped: int


class Programs(Protocol):
    """Programs bound to sizes, run in the caller's thread or by the group's."""

    calls: int

    def prepare(
        self,
        instructions: NDArray[np.int32],
        operands: NDArray[np.int32],
        sizes: NDArray[np.int64],
        input_offsets: NDArray[np.int64],
        output_offsets: NDArray[np.int64],
        scratch: int,
        window: int,
        dtype: int,
        op: int,
        collective: str,
        root: int,
        count: int,
        digest: int,
        single_copy: bool = False,
    ) -> int: ...
    def forget(self, plan: int) -> None: ...
    def run(self, plan: int, input: int, output: int) -> None: ...
    def start(self, plan: int, input: int, output: int) -> int: ...
    def done(self, ticket: int) -> bool: ...
    def wait(self, ticket: int, timeout_s: float) -> bool: ...
    @property
    def slots_open(self) -> int: ...


class TimedRuns(Protocol):
    """Calls that report the seconds of a core that their copies and reductions took, without waits. `calls`: the
    number of collectives begun. `work_s`: of a started call, once it has ended; None before."""

    calls: int

    def run_timed(self, plan: int, input: int, output: int) -> float: ...
    def start_timed(self, plan: int, input: int, output: int) -> int: ...
    def work_s(self, ticket: int) -> float | None: ...


class OwnCollectives(Protocol):
    """Collectives that an engine makes by means of its own, where the caller names no schedule: how is its affair.
    `own_name` names them for users. The elements of a rank's input and output are `counts`; both may be one memory, as
    `Program.aliasable` has it, but in an all_to_all."""

    own_name: str

    def serves(self, collective: str, dtype: int, op: int) -> bool: ...
    def prepare_own(
        self, collective: str, dtype: int, op: int, root: int, count: int, digest: int, counts: tuple[int, int]
    ) -> int: ...


class FastPath(Protocol):
    """Calls that look like earlier ones: one engine call, with nothing decided in Python."""

    def remember(
        self,
        collective: int,
        format: str,
        dtype: int,
        op: str,
        root: int,
        in_count: int,
        out_count: int,
        plan: int,
        offset: int | None = 0,
    ) -> None: ...
    def call(self, collective: int, x: Any, out: Any, op: str, root: int) -> bool: ...
    def call_shaped(self, collective: int, x: Any, out: Any, op: str, root: int, shape: int) -> Any: ...
    def remember_barrier(self, plan: int) -> None: ...
    def call_barrier(self) -> bool: ...
    def start_call(self, collective: int, x: Any, out: Any, op: str, root: int) -> int: ...
    def call_at(
        self,
        collective: int,
        dtype: int,
        op: str,
        root: int,
        x_address: int,
        x_count: int,
        out_address: int,
        out_count: int,
    ) -> bool: ...
    def start_at(
        self,
        collective: int,
        dtype: int,
        op: str,
        root: int,
        x_address: int,
        x_count: int,
        out_address: int,
        out_count: int,
    ) -> int: ...


class Messages(Protocol):
    """Messages between two ranks."""

    def exchange(self, operations: list[MessageOperation], timeout_s: float) -> list[tuple[int, int, int]]: ...
    def receive(self, peer: int, tag: int, dtype: int, timeout_s: float) -> tuple[bytes, int, int]: ...
    def send(self, x: Any, peer: int, tag: int) -> bool: ...
    def recv(self, x: Any, peer: int, tag: int) -> bool: ...
    def recv_at_most(self, x: Any, peer: int, tag: int) -> int: ...
    def post(self, operation: MessageOperation) -> int: ...
    def test(self, number: int) -> bool: ...
    def complete(self, numbers: list[int], first: bool, timeout_s: float) -> int: ...
    def status(self, number: int) -> tuple[int, int, int]: ...
    def drop(self, number: int) -> bool: ...
    def probe(
        self, peer: int, tag: int, timeout_s: float, may_have_left: bool = False
    ) -> tuple[int, int, int] | None: ...


class Windows(Protocol):
    """Memory that peers reach: regions that are read in place, windows that ranks write to and read by number and
    offset, and signals that order the accesses."""

    def add_region(self, fd: int, nbytes: int, offset: int, reserved: int | None = None) -> int: ...
    def prefault(self, address: int, nbytes: int) -> None: ...
    def in_region(self, address: int, nbytes: int) -> bool: ...
    def add_window(self, fd: int, nbytes: int) -> tuple[int, int]: ...
    def put(self, window: int, offset: int, peer: int, source: int, nbytes: int) -> None: ...
    def get(self, window: int, offset: int, peer: int, target: int, nbytes: int) -> None: ...
    def signal(self, peer: int, index: int) -> None: ...
    def wait_signal(self, peer: int, index: int, count: int, timeout_s: float) -> None: ...


class RecordsEvents(Protocol):
    """Counters of moved bytes, and events with their times."""

    def counters(self) -> NDArray[np.int64]: ...
    def peers(self) -> list[tuple[str, int, float]]: ...
    def reset_counters(self) -> None: ...
    def record(self, most_events: int) -> None: ...
    def recorded(self) -> tuple[Any, ...] | None: ...
    def recorded_messages(self) -> tuple[Any, ...] | None: ...


class Memo(Protocol):
    """Values that the members compute alike, computed once; see ringtree._native.Group for the contract."""

    def known(self, key: int) -> bytes | bool | None: ...
    def missing_claimant(self, key: int) -> int: ...
    def publish(self, key: int, value: bytes) -> bool: ...


class Health(Protocol):
    """The liveness of members, and a group's failure and end."""

    def inherited(self, ranks: list[int]) -> Any: ...
    def check_liveness(self, what: str, ranks: list[int], absent: list[int]) -> None: ...
    def begin_wait(self, what: str, rank: int, timeout_s: float) -> int: ...
    def end_wait(self, place: int, gave_up: bool) -> None: ...
    def give_up(self, text: str, ranks: list[int]) -> str: ...
    def fail_if_bereft(self, what: str) -> None: ...
    def poison(self, message: str) -> None: ...
    def tell_cause(self, text: str) -> None: ...
    @property
    def caller(self) -> int: ...
    @property
    def is_within_call(self) -> bool: ...
    @property
    def failure(self) -> str: ...
    def set_timeout(self, timeout_s: float) -> None: ...
    def close(self) -> None: ...


class Survival(Protocol):
    """An agreement of the survivors of a group on who goes on without the others. Also in a group that has failed."""

    def arrive(self, turn: int, ready: bool, shunned: list[int]) -> None: ...
    def arrivals(self) -> list[tuple[int, bool, bool]]: ...
    def decide(self, turn: int, made: bool, members: list[int]) -> bool: ...
    def decision(self) -> tuple[int, bool, list[int]]: ...


class SharedMemo(Memo, Health, Protocol):
    """A memo, and whether the members that it is awaited from live."""


class PreparedPrograms(Programs, FastPath, Protocol):
    """Programs, and the calls that are known to be theirs."""


class Endpoint(PreparedPrograms, Messages, Windows, RecordsEvents, Memo, Health, Survival, Protocol):
    """One rank's end of a group."""
