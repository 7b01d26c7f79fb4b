"""The slow path of a collective call: choose, build, prove, lower, bind, run, and teach the engine the fast path."""

from __future__ import annotations

import os
import zlib
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.schedule import Schedule
from ringtree.runtime.arrays import Array
from ringtree.runtime.communicator import calls
from ringtree.runtime.communicator.calls import reporting
from ringtree.runtime.communicator.calls.binding import (
    BoundPlan,
    Ints,
    RankProgram,
    bind,
    bind_own,
    bind_synchronization,
)
from ringtree.runtime.communicator.calls.codes import BALANCED, CODE, RANK_ORDER
from ringtree.runtime.communicator.calls.decisions import kind_of
from ringtree.runtime.communicator.calls.operations import Op, as_named, as_op
from ringtree.runtime.communicator.calls.ordering import kept_order
from ringtree.runtime.communicator.calls.plans import Offsets, Plans, Same
from ringtree.runtime.communicator.calls.request import CallRequest
from ringtree.runtime.communicator.calls.selection import Selection
from ringtree.runtime.communicator.composite import CompositeCall
from ringtree.runtime.communicator.messages.work import Work
from ringtree.runtime.engines.engine import GroupParameters, JoinedGroup, device_engine
from ringtree.runtime.types import Dtype, op_code

if TYPE_CHECKING:
    from ringtree.runtime.engines.protocols import Endpoint


class Calls:
    """The memory of one rank's communicator about its calls."""

    def __init__(
        self, joined: JoinedGroup, engine: str, parameters: GroupParameters, beside: Callable[..., Calls]
    ) -> None:
        self._joined, self._parameters, self._beside = joined, parameters, beside
        self.cores = joined.cores
        self._endpoint = joined.endpoint
        self.selection = Selection(joined, parameters)
        self.plans = Plans(joined.endpoint)
        self.offsets = Offsets()
        self._pending: deque[tuple[int, Any]] = deque()  # keeps arrays alive until done
        self._nowhere = np.empty(1, np.int64)  # of synchronizations
        self._logs = reporting.debug_of(os.environ) and parameters.rank == 0
        if self._logs:
            reporting.group(joined, engine, parameters)

    def perform(self, request: CallRequest, algorithm: str | Schedule | None, async_op: bool) -> Any:
        """Makes the call; returns its result, or a Work.

        An algorithm that the caller names, or a schedule, may send more before it receives than the group has staging
        slots for: then a group of the same ranks with more slots makes the call (a test proves that the rule's own
        choices fit). Arrays in a device's memory go to a group whose engine reaches that.
        """
        if request.device is not None and self._joined.devices is None:
            what = device_engine(os.environ, self._joined.network is not None)
            return self._beside(what, engine=what).perform(request, algorithm, async_op)
        if request.is_kept and not async_op:
            return self.perform(request, algorithm, True).result()
        offset = 0 if algorithm is None else self.offsets.find(algorithm)
        if offset is not None and (at := request.by_address(offset, async_op)):
            if not async_op and self._endpoint.call_at(*at):
                return request.result
            if async_op and (ticket := self._endpoint.start_at(*at)):
                return self.began(ticket, request.result, request)
        if not isinstance(algorithm, str | Schedule | None):
            raise TypeError(f"algorithm is {algorithm!r}; expected a name or a ringtree.ir.schedule.Schedule")
        op = as_op(request.op)
        if op is None and not isinstance(request.op, str):
            raise TypeError(f"op is {request.op!r}; expected a name, a ringtree.Op, ringtree.scaled or a function")
        if isinstance(op, Op):
            return self._by_function(request, op, algorithm, async_op)
        if op is not None:
            request.x, request.op = None if request.x is None else op.apply(request.x), "sum"
        wished = algorithm or self.selection.defaults.keeping(request.collective, request.dtype)
        forced = wished or self.selection.defaults.forced.get(request.collective)
        if forced is not None and forced not in (RANK_ORDER, BALANCED):
            slots = self.selection.slots_for(forced, request)
            if slots > self._joined.slots and self._joined.stages:
                self.settle()
                nbytes = request.count * request.dtype.itemsize
                self._synchronize(request, self.selection.part(request.collective, request.root, nbytes, wished)[0])
                slots = 1 << (slots - 1).bit_length()
                beside = self._beside(f"slots{slots}", slots)
                beside.selection.room = self.selection.room
                return beside._make(request, algorithm, async_op)
        return self._make(request, algorithm, async_op)

    def _make(self, request: CallRequest, algorithm: str | Schedule | None, async_op: bool) -> Any:
        r = request
        symmetric = self._is_symmetric(r.out)
        bound = self.bound(r.collective, r.dtype, r.op, r.root, r.count, algorithm, r.counts, r.packed, symmetric)
        x = self._apart(request, bound)
        addresses = (0 if x is None else x.address, 0 if request.out is None else request.out.address)
        endpoint = self._endpoint
        nbytes, trials = r.count * r.dtype.itemsize, self.selection.trials
        kind = kind_of(r.collective, r.root, nbytes)
        trial = None if algorithm else trials.under_way(kind)
        if trial is not None:
            tried = kind, trial, nbytes, bound.plan, addresses
            if async_op:
                return self.began(trials.start(*tried), request.result, (request, x))
            trials.run(*tried)
            return request.result
        if async_op:
            found = self.began(endpoint.start(bound.plan, *addresses), request.result, (request, x))
        else:
            endpoint.run(bound.plan, *addresses)
            found = request.result
        if r.counts is None and not r.packed:
            self._teach(request, bound, algorithm)
        return found

    def began(self, ticket: int, result: Any, kept: Any) -> Work:
        """The Work of a call that the engine has started; keeps `kept`, its arrays, until the call has ended."""
        endpoint, pending = self._endpoint, self._pending
        while pending and endpoint.done(pending[0][0]):
            pending.popleft()
        pending.append((ticket, kept))
        return Work(endpoint, ticket, result)

    def _by_function(self, request: CallRequest, op: Op, algorithm: str | Schedule | None, async_op: bool) -> Any:
        """A reduction by a Python function. It begins with a synchronization, in which a mismatch raises."""
        if async_op:
            raise ValueError(f"{op.name} is a Python function and runs in this call: async_op=True cannot be")
        if isinstance(algorithm, Schedule):
            self.selection.slots_for(algorithm, request)
        assert request.x is not None
        if algorithm is None and isinstance(order := self.selection.defaults.reductions[0], str):
            algorithm = kept_order(order, request.collective, None)
        part, _ = self.selection.part(request.collective, request.root, request.x.nbytes, algorithm, whole=True)
        calls.check_function(part.program, op, op.commutative or self.selection.in_rank_order(part, algorithm))
        request.x, request.out = as_named(request.x), None if request.out is None else as_named(request.out)
        groups: list[Endpoint] = [self._endpoint]

        def fail(what: str) -> None:
            for group in groups:
                group.poison(f"rank {self._parameters.names[self._parameters.rank]} {what}")

        with CompositeCall(fail, request.collective):
            self._synchronize(request, part)
            apart = self._beside("functions")._endpoint
            groups.insert(0, apart)
            calls.reduce_by_function(part.program, op, request, apart, tuple(groups), self._parameters)
        return request.result

    def _synchronize(self, request: CallRequest, part: RankProgram) -> None:
        """Sends a message without payload from every rank to every rank, with the fingerprint of the call that it
        opens: raises Mismatch where ranks called with other counts, types, roots or algorithms."""
        r = request
        digest = part.digest ^ r.packed ^ (0 if r.counts is None else zlib.crc32(r.counts.tobytes()))
        self._endpoint.run(*self._barrier(r.collective, r.dtype, r.root, r.count, digest))

    def synchronize_for(self, what: str, async_op: bool, root: int = -1) -> Work | None:
        """Synchronizes before the call `what`, in which no rank knows the others' sizes. Mismatch: where ranks make
        other calls, or name another `root`."""
        barrier = self._barrier(what, Dtype.UINT8, root, 0, 0)
        if async_op:
            return self.began(self._endpoint.start(*barrier), None, None)
        self._endpoint.run(*barrier)
        return None

    def _barrier(self, collective: str, dtype: Dtype, root: int, count: int, digest: int) -> tuple[int, int, int]:
        """The plan of such a synchronization, and its two addresses, where nothing is read or written."""
        n = self._parameters.ranks
        key = ("synchronization", collective, dtype, root, count, digest)
        found = self.plans.find(key)
        if found is None:
            shape = (n, self._parameters.rank, collective, dtype, root, count, digest)
            found = bind_synchronization(self._endpoint, *shape)
            self.plans.keep(key, found)
        address = self._nowhere.__array_interface__["data"][0]
        return found.plan, address, address

    def bound(
        self,
        collective: str,
        dtype: Dtype,
        op: str,
        root: int,
        count: int,
        algorithm: str | Schedule | None,
        counts: Ints | None = None,
        packed: int = 0,
        symmetric: bool = False,
    ) -> BoundPlan:
        """The plan for such a call, made at the first one, by whether that one's output is symmetric."""
        forced = Same(algorithm) if isinstance(algorithm, Schedule) else algorithm
        way = 0 if algorithm else self.selection.trials.way(kind_of(collective, root, count * dtype.itemsize))
        key = (collective, dtype, op, root, count, forced, None if counts is None else counts.tobytes(), packed, way)
        found = self.plans.find(key)
        if found is None:
            found = self._bind(collective, dtype, op, root, count, algorithm, counts, packed, symmetric)
            self.plans.keep(key, found)
            if self._logs:
                reporting.plan(found, dtype, root, count)
        return found

    def _bind(
        self,
        collective: str,
        dtype: Dtype,
        op: str,
        root: int,
        count: int,
        algorithm: str | Schedule | None,
        counts: Ints | None,
        packed: int,
        symmetric: bool,
    ) -> BoundPlan:
        """The plan, made. Where nobody asks for an algorithm, the engine's own means come first."""
        promise = COLLECTIVES[collective]
        number = op_code(op, dtype) if promise.reduces else -1
        if promise.prefix and op == "avg":
            raise ValueError(f"{collective} has no avg: each rank reduces over another number of ranks; try sum")
        wished, me = algorithm or self.selection.defaults.keeping(collective, dtype), self._parameters
        if not (wished or collective in self.selection.defaults.forced or packed) and counts is None:
            own = bind_own(self._joined, me.ranks, me.rank, collective, dtype, number, root, count)
            if own is not None:
                return own
        part, why = self.selection.part(collective, root, count * dtype.itemsize, wished, symmetric=symmetric)
        return bind(self._joined, part, me.rank, dtype, number, count, why, counts, packed)

    def promise(self, reductions: tuple[bool | str, str | None]) -> None:
        """Asks that of all reductions from now on (ordering.promises)."""
        self.settle()
        self.plans.forget_all()
        self.selection.defaults.reductions = reductions

    def replace_endpoint(self, other: Endpoint) -> None:
        """Replaces the endpoint where the group is closed, or this process is a fork: no call reaches the engine."""
        self._endpoint = other
        self.selection.replace_endpoint(other)
        self.plans.clear()
        self.plans.endpoint = other
        self._joined = self._joined.without_engine(other)

    def let_go(self) -> None:
        """Lets go of the arrays of asynchronous calls; only when the engine works on them no more."""
        self._pending.clear()

    def under_way(self) -> bool:
        """Whether an asynchronous call has not ended."""
        return bool(self._pending) and not self._endpoint.done(self._pending[-1][0])

    def has_requests(self) -> bool:
        """Whether an asynchronous call was started, ended or not."""
        return bool(self._pending)

    def settle(self) -> None:
        """Waits for all asynchronous calls."""
        if self._pending:
            self._endpoint.wait(self._pending[-1][0], -1.0)

    def _is_symmetric(self, out: Array | None) -> bool:
        """Whether an output is in memory that all ranks reach, where they are on one host."""
        if out is None or self._joined.devices is not None or self._joined.network is not None:
            return False
        return self._endpoint.in_region(out.address, out.nbytes)

    def _apart(self, request: CallRequest, bound: BoundPlan) -> Array | None:
        """The input, copied where it overlaps the output in a way that the program does not allow for."""
        x, out = request.x, request.out
        if x is None or out is None or not x.overlaps(out):
            return x
        item = x.dtype.itemsize
        aligned = x.address - bound.input_start * item == out.address - bound.output_start * item
        return x if aligned and bound.aliasable else x.copy()

    def _teach(self, request: CallRequest, bound: BoundPlan, algorithm: str | Schedule | None) -> None:
        """Lets the fast path serve calls that look like this one."""
        x, out = request.x, request.out
        shown = x or out
        assert shown is not None
        counts = (0 if x is None else x.count, 0 if out is None else out.count)
        offset = 0 if algorithm is None else self.offsets.keep(algorithm)
        code = CODE[request.collective] + offset
        signature = (code, shown.format() or "", int(request.dtype), request.op, request.root, *counts)
        self.plans.teach(signature, bound)
