"""The nccl engine: collectives of a torch.distributed backend, and any program by grouped sends and receives.

Health, messages and windows are those of the members' group on their hosts. There a call's fingerprint goes round
before the call begins on the devices, so that ranks which differ, died or do not come are noticed as ever, and before
an array is written.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray

from ringtree.errors import Poisoned, TimedOut
from ringtree.ir.collective import collective as find_collective
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.price.devices import Devices
from ringtree.runtime.engines.engine import GroupParameters, JoinedGroup
from ringtree.runtime.engines.nccl.arithmetic import Arithmetic, stored
from ringtree.runtime.engines.nccl.carrier import Carrier, connect
from ringtree.runtime.engines.nccl.choice import chosen
from ringtree.runtime.engines.nccl.groups import GroupedProgram, grouped
from ringtree.runtime.engines.nccl.memory import at_address
from ringtree.runtime.engines.nccl.running import Run
from ringtree.runtime.engines.on_host import OnHost, join_host
from ringtree.runtime.engines.reference.fast_path import KnownCalls
from ringtree.runtime.types import OPS, Dtype

if TYPE_CHECKING:
    from ringtree.runtime.engines.protocols import Endpoint

COSTS = (15e-6, 10e-6, 2e12, 25e9)
"""Seconds of a group of sends and receives, and of a call's first kernel; bytes a second of a GPU's memory, and of a
network of 200 Gb/s: for the choice of an algorithm where the backend has no call of its own."""
NOTICED_S = 2.0
"""Seconds in which a peer's death is looked for after the carrier has failed."""
_NAME = {code: name for name, code in OPS.items()}


def join(parameters: GroupParameters) -> JoinedGroup:
    """The members' group on their hosts, and the backend between their devices."""
    if parameters.threads:
        raise ValueError("the nccl engine's ranks are processes; expected threads=False")
    host = join_host(parameters)
    try:
        carrier = connect(parameters, chosen(os.environ))
    except BaseException:
        host.endpoint.close()
        raise
    endpoint = NcclEndpoint(host.endpoint, carrier, parameters)
    costs = Devices(tuple(range(parameters.ranks)), *COSTS, "assumed costs of NCCL's transfers")
    return host._replace(endpoint=cast("Endpoint", endpoint), devices=costs, stages=False, own=endpoint)


class _Plan(NamedTuple):
    """A call that is bound to its sizes. `comparison`: the host's plan that compares it; a barrier, and a call
    that moves no bytes, is nothing more. `program` is None for the backend's own call."""

    comparison: int
    collective: str
    dtype: Dtype
    op: int
    root: int
    counts: tuple[int, int]
    program: GroupedProgram | None = None
    own: bool = False


class NcclEndpoint(KnownCalls, OnHost):
    """See ringtree._native.Group for the contract. A call has ended in the order of the caller's stream when it
    returns; an asynchronous one has begun there, and is waited for by the stream that is current then."""

    def __init__(self, host: Any, carrier: Carrier, parameters: GroupParameters) -> None:
        OnHost.__init__(self, host)
        self.carrier, self.rank, self.ranks = carrier, parameters.rank, parameters.ranks
        self.own_name = f"{carrier.name}'s own"
        self.timeout_s = parameters.timeout_s
        self.memory: dict[tuple[Any, ...], tuple[int, int | None]] = {}
        self._names = parameters.names
        self._plans: dict[int, _Plan] = {}
        self._prepared = 0
        self._tickets: dict[int, Any] = {}  # ticket -> event of the device; None where it has ended
        self._issued = 0
        self._received = np.zeros((self.ranks, 2), np.int64)
        self._compared = 0  # calls, each of which the host counted messages of
        self._heard_of = [(self.rank - distance) % self.ranks for distance in _distances(self.ranks)]
        self._one_at_a_time = threading.Lock()
        self._nothing = np.zeros(1, np.int64)  # that comparisons neither read nor write

    # -- plans

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
    ) -> int:
        what = dtype, op, collective, root, count, digest
        if collective == "barrier" or not sizes.any():
            offsets = input_offsets, output_offsets
            host = self.host.prepare(instructions, operands, sizes, *offsets, scratch, window, *what)
            return self._keep(_Plan(host, collective, Dtype(dtype), op, root, (0, 0)))
        if op >= 0:
            Arithmetic(Dtype(dtype), op)  # or raises
        transposes = find_collective(collective).transposes
        program = grouped(instructions, operands, sizes, input_offsets, output_offsets, scratch, transposes)
        ends = program.ends(Space.INPUT), program.ends(Space.OUTPUT)
        return self._keep(_Plan(self._comparison(what), collective, Dtype(dtype), op, root, ends, program))

    def serves(self, collective: str, dtype: int, op: int) -> bool:
        """Whether the backend has that collective itself."""
        return self.carrier.serves(collective, Dtype(dtype), _NAME.get(op, ""))

    def prepare_own(
        self, collective: str, dtype: int, op: int, root: int, count: int, digest: int, counts: tuple[int, int]
    ) -> int:
        """The plan of the backend's own call, of these elements of input and output."""
        comparison = self._comparison((dtype, op, collective, root, count, digest))
        return self._keep(_Plan(comparison, collective, Dtype(dtype), op, root, counts, own=True))

    def _keep(self, plan: _Plan) -> int:
        self._plans[self._prepared] = plan
        self._prepared += 1
        return self._prepared - 1

    def _comparison(self, what: tuple[int, int, str, int, int, int]) -> int:
        """The host's plan by which all ranks learn that all others make the same call: each hears of twice as many in
        each round."""
        nothing = np.zeros(1, np.int64)
        instructions, operands = _round(self.rank, self.ranks).encode()
        return int(self.host.prepare(instructions, operands, nothing, nothing, nothing, 0, 1, *what))

    def forget(self, plan: int) -> None:
        self.host.forget(self._find(plan).comparison)
        del self._plans[plan]
        self.memory = {signature: known for signature, known in self.memory.items() if known[0] != plan}

    def _find(self, plan: int) -> _Plan:
        if plan not in self._plans:
            known = 0 <= plan < self._prepared
            raise ValueError(
                f"plan {plan} was forgotten" if known else f"no plan {plan}: {self._prepared} were prepared"
            )
        return self._plans[plan]

    # -- calls

    def run(self, plan: int, input: int, output: int) -> None:
        found = self._find(plan)
        with self._one_at_a_time:
            if found.program is None and not found.own:
                self._on_host(found, input, output)
                return
            nowhere = self._nothing.__array_interface__["data"][0]
            self._on_host(found, nowhere, nowhere)
            self._compared += 1
            try:
                with self._on_device():
                    self._perform(found, input, output)
            except RuntimeError as error:
                raise self._failed(error, found) from error

    def start(self, plan: int, input: int, output: int) -> int:
        self.run(plan, input, output)
        event = None
        if self.carrier.device.type == "cuda":
            event = torch.cuda.Event()
            event.record(torch.cuda.current_stream(self.carrier.device))
        self._issued += 1
        self._tickets[self._issued] = event
        return self._issued

    def done(self, ticket: int) -> bool:
        event = self._tickets.get(ticket)
        if event is not None and not event.query():
            return False
        self._tickets.pop(ticket, None)
        return True

    def wait(self, ticket: int, timeout_s: float) -> bool:
        event = self._tickets.get(ticket)
        if event is not None:
            torch.cuda.current_stream(self.carrier.device).wait_event(event)
        return True

    def _on_host(self, plan: _Plan, input: int, output: int) -> None:
        try:
            self.host.run(plan.comparison, input, output)
        except RuntimeError:
            self.carrier.abort()
            raise

    def _perform(self, plan: _Plan, input: int, output: int) -> None:
        kind, item, device = stored(plan.dtype), plan.dtype.itemsize, self.carrier.device
        flat = [
            at_address(address, count * item, device).view(kind)
            for address, count in zip((input, output), plan.counts, strict=True)
        ]
        if plan.own:
            x, out = (tensor if tensor.numel() else None for tensor in flat)
            self.carrier.collective(plan.collective, _NAME.get(plan.op, ""), plan.root, x, out)
            return
        assert plan.program is not None
        arithmetic = Arithmetic(plan.dtype, plan.op) if plan.op >= 0 else None
        Run(plan.program, arithmetic, flat[0], flat[1], self.carrier.exchange).run(self.ranks)
        for peer, elements, messages in plan.program.received:
            self._received[peer] += (elements * item, messages)

    def _on_device(self) -> AbstractContextManager[Any]:
        device = self.carrier.device
        return torch.cuda.device(device) if device.type == "cuda" else nullcontext()

    def _failed(self, error: RuntimeError, plan: _Plan) -> Exception:
        """The error of a call whose carrier has failed: that of the peer which died, where one did."""
        until = time.monotonic() + NOTICED_S
        members = list(range(self.ranks))
        while time.monotonic() < until:
            try:
                self.host.check_liveness(plan.collective, members, [])
            except RuntimeError as found:
                self.carrier.abort()
                return found
            time.sleep(0.01)
        text = " ".join(str(error).split())
        me = f"rank {self._names[self.rank]}"
        self.poison(f"{me}: {self.carrier.name} failed in {plan.collective}: {text}")
        kind = TimedOut if "timed out" in text.lower() or "timeout" in text.lower() else Poisoned
        return kind(f"{me} in {plan.collective}: {self.carrier.name} failed: {text}")

    # -- the rest that is not the host's alone

    def counters(self) -> NDArray[np.int64]:
        counted = np.asarray(self.host.counters() + self._received)
        for peer in self._heard_of:
            counted[peer, 1] -= self._compared
        return counted

    def reset_counters(self) -> None:
        self.host.reset_counters()
        self._received[:] = 0
        self._compared = 0

    def poison(self, message: str) -> None:
        self.host.poison(message)
        self.carrier.abort()

    def set_timeout(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.host.set_timeout(timeout_s)

    def close(self) -> None:
        try:
            if self.host.failure:
                self.carrier.abort()
            else:
                self.carrier.close()
        finally:
            self.host.close()


def _round(rank: int, ranks: int) -> Program:
    """A program in which every rank hears of every other, in log2(ranks) rounds."""
    chunk = Operand(Space.INPUT, 0, 0)
    code: list[Instruction] = []
    for distance in _distances(ranks):
        code += [
            Instruction(Kind.COPY, (Operand(Space.SLOT, 0, 0),), (chunk,)),
            Instruction(Kind.SIGNAL, peer=(rank + distance) % ranks, register=0),
            Instruction(Kind.WAIT, peer=(rank - distance) % ranks, register=0),
            Instruction(Kind.COPY, (Operand(Space.OUTPUT, 0, 0),), (Operand(Space.MESSAGE, 0, 0),)),
            Instruction(Kind.RELEASE, peer=(rank - distance) % ranks),
        ]
    return Program("comparison", "barrier", rank, ranks, 1, (tuple(code),))


def _distances(ranks: int) -> list[int]:
    return [1 << k for k in range((ranks - 1).bit_length())]
