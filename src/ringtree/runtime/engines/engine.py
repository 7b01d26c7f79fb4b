"""What an engine is: it gives a rank a seat in a group, and the seat interprets programs.

An engine is one line in ENGINES: a module with `join(terms) -> Joined`. All engines pass the same contract suite
(tests/runtime/test_contract.py), which reads this table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

import ringtree

if TYPE_CHECKING:
    from ringtree.price import CostParameters

ENGINES = {"shm": "ringtree.runtime.engines.shm", "reference": "ringtree.runtime.engines.reference.engine"}
"""Name -> module."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What the members of a group agree on before there is a group. `place` is a text all members derive alike.

    `names` are the members' world ranks, for messages. `threads`: the members are threads of one process.
    `look`, where they know each other already, raises when one of them has died. `slots`: how
    many staging slots a rank needs at least; 0 leaves it to the engine. `kin`: in a group made from another, what the
    seat there knows of the members (Seat.kin). `parameters`: what calls cost, by which they are planned; where members
    did not know each other before, rank 0's are everybody's, and None is what is built in.
    """

    place: str
    rank: int
    names: tuple[str, ...]
    timeout_s: float
    threads: bool = False
    look: Callable[[list[int]], None] | None = None
    slots: int = 0
    kin: Any = None
    parameters: CostParameters | None = None

    @property
    def ranks(self) -> int:
        return len(self.names)

    @property
    def subject(self) -> str:
        return f"the group of {self.ranks} ranks"


class Recorded(NamedTuple):
    """What a seat wrote down, as Seat.recorded says it. `calls`: (text, digest) of what the column `call` counts."""

    kind: NDArray[np.int32]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    nbytes: NDArray[np.int64]
    peer: NDArray[np.int32]
    chunk: NDArray[np.int32]
    call: NDArray[np.int32]
    calls: list[tuple[str, int]]
    dropped: int


class Seat(Protocol):
    """One rank's place in a group: ringtree._native.Group states the contract method by method."""

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
    ) -> int: ...
    def forget(self, plan: int) -> None: ...
    def run(self, plan: int, input: int, output: int) -> None: ...
    def start(self, plan: int, input: int, output: int) -> int: ...
    def done(self, ticket: int) -> bool: ...
    def wait(self, ticket: int, timeout_s: float) -> bool: ...
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
    def exchange(
        self, operations: list[tuple[bool, int, int, int, int, int, bool]], timeout_s: float
    ) -> list[tuple[int, int, int]]: ...
    def receive(self, peer: int, tag: int, dtype: int, timeout_s: float) -> tuple[bytes, int, int]: ...
    def send(self, x: Any, peer: int, tag: int) -> bool: ...
    def recv(self, x: Any, peer: int, tag: int) -> bool: ...
    def recv_at_most(self, x: Any, peer: int, tag: int) -> int: ...
    def post(self, operation: tuple[bool, int, int, int, int, int, bool]) -> int: ...
    def test(self, number: int) -> bool: ...
    def complete(self, numbers: list[int], first: bool, timeout_s: float) -> int: ...
    def status(self, number: int) -> tuple[int, int, int]: ...
    def drop(self, number: int) -> bool: ...
    def probe(self, peer: int, tag: int, timeout_s: float) -> tuple[int, int, int] | None: ...
    def add_region(self, fd: int, nbytes: int, offset: int, reserved: int | None = None) -> int: ...
    def bring(self, address: int, nbytes: int) -> None: ...
    def copy(self, to: int, source: int, nbytes: int) -> None: ...
    def signal(self, peer: int, index: int) -> None: ...
    def wait_signal(self, peer: int, index: int, count: int, timeout_s: float) -> None: ...
    def counters(self) -> NDArray[np.int64]: ...
    def reset_counters(self) -> None: ...
    @property
    def slots_open(self) -> int: ...
    def record(self, most_events: int) -> None: ...
    def recorded(self) -> tuple[Any, ...] | None: ...
    def recorded_messages(self) -> tuple[Any, ...] | None: ...
    def kin(self, ranks: list[int]) -> Any: ...
    def look(self, what: str, ranks: list[int], absent: list[int]) -> None: ...
    def poison(self, message: str) -> None: ...
    def set_timeout(self, timeout_s: float) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Joined:
    """A seat, and what the members found out about each other. `slots` staging slots of `slot_bytes` are each rank's;
    `cores` is how many cores the members may use between them; `parameters` are Terms', the same for all."""

    seat: Seat
    slots: int
    slot_bytes: int
    cores: int
    parameters: CostParameters | None = None


def join(engine: str, terms: Terms) -> Joined:
    """Takes this rank's seat in a new group; returns when all members have come."""
    if engine not in ENGINES:
        raise ValueError(f"no engine {engine!r}: expected one of {', '.join(ENGINES)}")
    joined: Joined = import_module(ENGINES[engine]).join(terms)
    return joined


def native_module() -> Any:
    """The native module. ImportError where it was not built, RuntimeError where it was built for other Python sources
    than those beside it."""
    native = import_module("ringtree._native")
    interface = hashlib.sha256(Path(ringtree.__file__).with_name("_native.pyi").read_bytes()).hexdigest()
    if not interface.startswith(getattr(native, "INTERFACE", "none")):
        raise RuntimeError(
            f"the native engine ({native.__file__}) was built for another version of the Python beside it: "
            "pip install . builds it anew, in a checkout: make setup"
        )
    return native


def default_engine(ranks: int) -> str:
    """The native engine; where it was not built, the reference engine can still serve a world of one."""
    try:
        native_module()
    except ImportError as error:
        if ranks == 1:
            return "reference"
        raise RuntimeError(f"the native engine is not installed ({error}): pip install . builds it") from None
    return "shm"
