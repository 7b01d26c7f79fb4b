"""The communicator: a group of ranks, seen from one of them.

Conventions are numpy's: a collective returns a new array of the input's kind (numpy in, numpy out; a torch CPU tensor
in, a tensor out) unless `out=` is given; `out=x` is in place. All ranks of a group make the same calls in the same
order. Each collective takes `algorithm=` (a name; without one, a rule chooses) and `async_op=True` (returns a Work).

Its methods come in families, one file each; this one has the group's identity, plans and end.
"""

from __future__ import annotations

import os
from _thread import get_ident
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast
from weakref import WeakSet

import numpy as np

from ringtree.runtime import communicator as rooms
from ringtree.runtime import tracing
from ringtree.runtime.bootstrap.environment import patience
from ringtree.runtime.communicator import calls, lifetime
from ringtree.runtime.communicator.arguments import whole
from ringtree.runtime.communicator.collectives.coalesced import Coalesced
from ringtree.runtime.communicator.collectives.objects import Objects
from ringtree.runtime.communicator.elastic import Elastic
from ringtree.runtime.communicator.messages.messages import PendingMessages
from ringtree.runtime.communicator.messages.point_to_point import PointToPoint
from ringtree.runtime.communicator.windows.one_sided import OneSided
from ringtree.runtime.engines.engine import GroupParameters, join

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray
    from typing_extensions import Self

    from ringtree.price.devices import Devices
    from ringtree.price.hosts import Hosts
    from ringtree.price.memory import SharedMemory
    from ringtree.runtime.communicator.calls import BoundPlan, Calls
    from ringtree.runtime.communicator.member import AlgorithmChoice
    from ringtree.runtime.communicator.messages.work import Work
    from ringtree.runtime.engines.protocols import Endpoint

READ_AT_ONCE = ("RINGTREE_ALGORITHM", "RINGTREE_DETERMINISTIC", "RINGTREE_ACCUMULATE", "RINGTREE_DEBUG")
"""Variables that are read when a group is made: a value that is none is refused then, and the group is reported."""


class PeerHealth(NamedTuple):
    """A rank as another sees it. `state`: running, left or died; this rank's waits for it of more than 2 ms: how many,
    and their seconds together."""

    state: str
    waits: int
    waited_s: float


class Communicator(Elastic, OneSided, PointToPoint, Objects, Coalesced):
    """A group of ranks on one or several hosts, and this rank's number in it. `ringtree.init()` makes one.

    Every call may raise: TypeError for an element type that docs/types.md lacks, or an `out` of another type than the
    input; ValueError for an `out` of another number of elements, read-only or not contiguous, a root that is no rank of
    the group, or an algorithm that is unknown or does not serve the collective; Mismatch if ranks make different calls,
    PeerDied if a rank ends, TimedOut after `timeout_s`, Poisoned if the group failed before; RuntimeError if it is
    closed.

    `call`, `call_shaped`, `call_barrier` and `start_call` are the fast path (see them in _native.pyi), `call_at` and
    `start_at` that by addresses, for arrays of kinds that ringtree does not know; the methods teach it the calls.
    `began` is the Work of one that was started.
    """

    def __init__(self, engine: str, parameters: GroupParameters) -> None:
        self.rank = parameters.rank
        self.size = parameters.ranks
        joined = join(engine, parameters)
        # this group keeps nothing of the one that it was made from
        measured = joined.network.measured if joined.network else None
        self._engine, self._joined_group = engine, joined
        self._parameters = parameters._replace(
            check_liveness=None, inherited=None, cost=joined.cost, network=measured, met=None
        )
        self._endpoint = joined.endpoint
        self.call: Any = joined.endpoint.call
        self.call_shaped: Any = joined.endpoint.call_shaped
        self.call_barrier: Any = joined.endpoint.call_barrier
        self.start_call: Any = joined.endpoint.start_call
        self.call_at: Any = joined.endpoint.call_at
        self.start_at: Any = joined.endpoint.start_at
        self._mail = PendingMessages(joined.endpoint)
        self._hosts = joined.hosts or (0,) * self.size
        self._token = np.zeros(1, np.int32)  # what a barrier passes around
        self._made = 0  # groups and symmetric arrays made so far: the key of the next one's bootstrap
        self._grouped = {}
        self._windows = []
        self._besides: dict[str, Communicator] = {}
        self._recordings = []
        self._spans: tracing.Spans | None = None  # during a recording
        self._offspring = WeakSet()
        if any(map(os.environ.get, READ_AT_ONCE)):
            _ = self._calls
        lifetime.watch(self)

    def chosen(
        self,
        collective: str,
        count: int,
        dtype: DTypeLike = np.float32,
        *,
        op: str = "sum",
        root: int = 0,
        algorithm: AlgorithmChoice = None,
        symmetric: bool = False,
    ) -> BoundPlan:
        """The plan of a call on a whole vector of `count` elements of `dtype` (a numpy dtype, or the name of raw bits'
        type, as "bfloat16"): `.part.program` is this rank's program (its `name`, its `digest()`), `.why` the reason for
        the choice. Asked before the first such call, it decides for all later ones: `symmetric` says whether their
        outputs are arrays of `empty`. ValueError: if no such collective, root or algorithm exists. TypeError: if `op`
        does not apply to `dtype`."""
        key = calls.plan_key(collective, dtype, op, root)
        if (elements := whole(count, "count")) < 0:
            raise ValueError(f"count is {count}; expected at least 0 elements")
        return self._calls.bound(*key, elements, algorithm, symmetric=symmetric)

    @property
    def hosts(self) -> tuple[int, ...]:
        """The number of each rank's host, in the order of ranks: ranks with one number share memory."""
        return self._hosts

    @property
    def where(self) -> SharedMemory | Hosts | Devices:
        """The place by whose costs calls are planned, to price schedules in; equal on all ranks."""
        return self._calls.selection.where()

    def counters(self) -> NDArray[np.int64]:
        """[size, 2] of int64: bytes of payload received from each rank, in collectives and in messages between two
        ranks, and the number of messages, since the last reset."""
        counted: NDArray[np.int64] = self._endpoint.counters()
        for group in self._besides.values():
            counted = counted + group.counters()
        return counted

    def health(self) -> list[PeerHealth]:
        """The state of each rank, and how long this rank has waited for it: a slow one stands out before it is a hang.
        Costs some microseconds a rank; waits of less than 2 ms are not counted."""
        seen = [group._endpoint.peers() for group in (self, *self._besides.values())]
        return [
            PeerHealth(own[0][0], sum(peer[1] for peer in own), sum(peer[2] for peer in own))
            for own in zip(*seen, strict=True)
        ]

    def reset_counters(self) -> None:
        """Sets this rank's counters to zero."""
        for group in (self, *self._besides.values()):
            group._endpoint.reset_counters()

    @property
    def slots_open(self) -> int:
        """Staging slots of this rank that calls have taken and not closed. Between calls there are none: any other
        number is a fault of the engine, by which a later call would wait in vain for a free slot."""
        open_here: int = self._endpoint.slots_open
        return open_here + sum(group.slots_open for group in self._besides.values())

    def began(self, ticket: int, result: Any, kept: Any) -> Work:
        """The Work of a call that `start_at` has started, whose result it is; `kept` is kept until it has ended."""
        return self._calls.began(ticket, result, kept)

    def trace(self, *, most_events: int | None = None) -> tracing.Recording:
        """Records the calls of all ranks in a block of their programs: `with comm.trace() as recording`, and after the
        block `recording.trace`, on every rank. All ranks enter the block, and leave it together. `most_events` of a
        rank are kept in each group (default 1,048,576: 40 MB); the number of dropped ones is among the trace's facts.
        ValueError: if `most_events` is less than 1."""
        return tracing.Recording(
            self, tracing.MOST_EVENTS if most_events is None else whole(most_events, "most_events")
        )

    def span(self, name: str) -> AbstractContextManager[None]:
        """Names the program's own work in a block for the traces being recorded: `with comm.span("forward 3")`. The
        block becomes an event COMPUTE, whose call is that name. Blocks may nest, and make calls. Without a recording
        it costs next to nothing."""
        return tracing.UNRECORDED if self._spans is None else tracing.Span(self._spans, name)

    @property
    def timeout_s(self) -> float:
        """Seconds that a wait of this group lasts at most: see `set_timeout`."""
        return self._parameters.timeout_s

    def set_timeout(self, timeout_s: float) -> None:
        """Bounds every wait of this group that begins from now on, on this rank, in seconds. ValueError: unless above
        0."""
        timeout_s = patience(timeout_s)
        for group in (self, *self._besides.values()):
            group._parameters = group._parameters._replace(timeout_s=timeout_s)
            if used := group._used_calls():
                used._parameters = group._parameters
            group._endpoint.set_timeout(timeout_s)

    def set_reductions(self, *, deterministic: bool | str = False, accumulate: str | None = None) -> None:
        """Asks of all reductions of this group from now on what a call asks for by these arguments (see `all_reduce`),
        also of groups made from it later; calls that ask for something else have that. It takes the place of
        RINGTREE_DETERMINISTIC and RINGTREE_ACCUMULATE. All ranks call it alike, between the same calls; no other
        thread's call may be under way. ValueError: if it is no such promise."""
        promised = calls.promises(deterministic, accumulate)
        for group in (self, *self._besides.values()):
            group._parameters = group._parameters._replace(reductions=promised)
            if used := group._used_calls():
                used.promise(promised)

    def abort(self, why: str = "") -> None:
        """Fails the group for all its ranks; any thread may. A rank that waits in the group gets Poisoned at once,
        and so does every later call."""
        self._fail("aborted the group" + (f": {why}" if why else ""))

    def _fail(self, what: str) -> None:
        if isinstance(self._endpoint, lifetime.Gone):
            return
        for group in (self, *self._besides.copy().values()):
            group._endpoint.poison(f"rank {self._name} {what}")

    @property
    def _name(self) -> str:
        """This rank's name in messages: its rank in the world."""
        return self._parameters.names[self.rank]

    def _tell_cause(self, error: BaseException | None) -> None:
        """See lifetime.tell_cause."""
        if not isinstance(self._endpoint, lifetime.Gone) and (why := lifetime.cause_in_words(error, self._name)):
            for group in (self, *self._besides.copy().values()):
                group._endpoint.tell_cause(why)

    def _called_here(self) -> bool:
        """Whether this thread made the last call, or exchanged the last message, in the group."""
        if isinstance(self._endpoint, lifetime.Gone):
            return False
        return any(group._endpoint.caller == get_ident() for group in (self, *self._besides.copy().values()))

    def check_liveness(self, what: str) -> None:
        """Raises the error with which the group failed, or PeerDied if one of its ranks died; does not wait. `what`:
        the caller's name in the error text."""
        self._endpoint.check_liveness(what, list(range(self.size)), [])

    def _in_use(self) -> bool:
        """Whether a call that this rank has started is under way, or a Message has yet to see the end of its own."""
        used = self._used_calls()
        if self._mail.in_use() or (used is not None and used.under_way()):
            return True
        return any(group._in_use() for group in self._besides.copy().values())

    def _has_requests(self) -> bool:
        """Whether this rank has started an asynchronous call, whose Work raises what it fails with."""
        used = self._used_calls()
        if used is not None and used.has_requests():
            return True
        return any(group._has_requests() for group in self._besides.copy().values())

    def _settle(self) -> None:
        """Waits for all that this rank has started, as long as the group's timeout; raises what fails."""
        self._mail.settle()
        if used := self._used_calls():
            used.settle()
        for group in self._besides.copy().values():
            group._settle()

    def close(self) -> None:
        """Leaves the group. Peers that still wait for this rank get PeerDied. RuntimeError: in a signal's handler that
        has interrupted a call of the group by the same thread; the group stays open."""
        if isinstance(self._endpoint, lifetime.Gone):
            return
        if any(group._endpoint.is_within_call for group in (self, *self._besides.copy().values())):
            raise RuntimeError(
                f"rank {self._name} called close in a signal's handler, within a call of the same group, which cannot "
                "be closed before that call ends: let the handler raise an exception, as sys.exit() does, and close "
                "the group thereafter, or call abort()"
            )
        for recording in list(self._recordings):
            recording.leave(self)
        for group in self._besides.copy().values():
            group.close()
        lifetime.forget(self)
        endpoint = self._replace_endpoint(
            lifetime.Gone(f"this communicator (rank {self.rank} of {self.size}) is closed")
        )
        try:
            endpoint.close()
        finally:
            if used := self._used_calls():
                used.let_go()
            self._mail.let_go()

    def _replace_endpoint(self, other: lifetime.Gone) -> Endpoint:
        endpoint, gone = self._endpoint, cast("Endpoint", other)
        self._endpoint = gone
        self.call = self.call_shaped = self.call_barrier = self.start_call = self.call_at = self.start_at = other
        self._joined_group = self._joined_group.without_engine(gone)
        if used := self._used_calls():
            used.replace_endpoint(gone)
        self._mail.replace_endpoint(gone)
        return endpoint

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tell_cause(error)
        self.close()

    if not TYPE_CHECKING:  # which would take any name for an attribute

        def __getattr__(self, name: str) -> NoReturn:
            here = rooms.hint(name, dir(Communicator)) if not name.startswith("_") else ""
            raise AttributeError(f"a Communicator has no {name!r}{here}", name=name, obj=self)

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} is this process's own and cannot be copied or pickled; send its ranks instead")

    def __repr__(self) -> str:
        return f"<Communicator rank {self.rank} of {self.size}, engine {self._engine}>"

    def beside(self, what: str, slots: int = 0, engine: str = "") -> Communicator:
        """A group of the same ranks for a purpose of its own, with `slots` staging slots at least, by this engine (by
        default this group's): made at first use, which all ranks come to in the same call; fails, and is closed, with
        this one."""
        group = self._besides.get(what)
        if group is None:
            ranks = list(range(self.size))
            parameters = self._parameters._replace(
                key=f"{self._parameters.key}/{what}",
                slots=slots,
                check_liveness=partial(self._endpoint.check_liveness, what, ranks),
                inherited=self._endpoint.inherited(ranks),
            )
            made = Communicator(engine, parameters) if engine else self._of(parameters)
            group = self._besides[what] = self._made_from_here(made)
            if made._joined_group.devices is not None:
                self._open_door(made._endpoint)
        return group

    def _open_door(self, device: Any) -> None:
        """Lets the fast path serve arrays in devices' memory, by the endpoint of a group beside this one, where that is
        native."""
        make = getattr(device, "door", None)
        door = make and make(self._endpoint)
        if door is not None:
            self.call, self.call_shaped, self.start_call = door.call, door.call_shaped, door.start_call

    def _of(self, parameters: GroupParameters) -> Communicator:
        return Communicator(self._engine, parameters)

    def _beside(self, what: str, slots: int = 0, engine: str = "") -> Calls:
        return self.beside(what, slots, engine)._calls
