"""The Send and Recv of a graph that is cut into parts (cut_pass.py), and of the gradients in the opposite direction.

Deadlock is impossible. A part begins its sends and waits for them when the step is done, so within a step it waits for
receives only. Forward, a part receives from earlier parts only: the first part waits for nothing and ends, and each
part ends after all before it. Backward, the same holds from the last part on. Messages are matched by the value's tag,
so autograd may request them in any order.

Which gradients go back is written into the graph, at both ends of a value. So a value that needs none by now (a layer
was frozen) has its gradient received and dropped; one that needs one that nobody sends is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ringtree.errors import Mismatch, PeerDied, Poisoned, TimedOut
from ringtree.torch_backend import communicator

FAILURES = (Mismatch, PeerDied, Poisoned, TimedOut)
"""Errors that the other ranks of the group have, too."""

_WIRE: ContextVar[StageLink] = ContextVar("wire")


class GradientNotSent(ValueError):
    """A value requires a gradient that no part sends, because it required none when the graph was cut."""

    def __init__(self, value: Tensor, to: int, tag: int, sources: str = "what it is made of") -> None:
        super().__init__(
            f"the value for part {to} (tag {tag}) requires a gradient, and required none at split(); expected "
            f"{sources} to require none: freeze or detach, or call split() again"
        )
        self.of = value, to, tag


class StageLink:
    """The connection of a part's Sends and Recvs while its `with` block runs: a group whose k-th rank has the k-th
    part."""

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self.group = group
        self._begun: list[tuple[dist.Work, Tensor]] = []
        self._owed: dict[int, tuple[int, Tensor]] = {}
        self._expected: dict[tuple[int, int], Tensor] = {}
        self._span = ExitStack()

    def __enter__(self) -> None:
        self._token = _WIRE.set(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Aborts the group for an error that this rank alone has: the others would wait for its messages."""
        _WIRE.reset(self._token)
        if error is not None and not isinstance(error, FAILURES):
            communicator(self.group).abort(f"{type(error).__name__}: {error}")

    def send(self, value: Tensor, to: int, tag: int) -> None:
        """Begins to send a value to the part of rank `to`; `settle` waits for the send."""
        value = value.detach().contiguous()
        self._begun.append((dist.isend(value, group=self.group, group_dst=to, tag=tag), value))

    def receive(self, into: Tensor, source: int, tag: int) -> Tensor:
        """Fills `into` and returns it. The current pass is interrupted in a trace while the receive waits."""
        self._span.close()
        dist.recv(into, group=self.group, group_src=source, tag=tag)
        self._span.enter_context(communicator().span(self._pass))
        return into

    @contextmanager
    def work(self, name: str) -> Iterator[None]:
        """Marks the `with` block as the pass `name` in a trace."""
        self._pass = name
        with self._span:
            self._span.enter_context(communicator().span(name))
            yield

    def owe(self, source: int, tag: int, value: Tensor) -> None:
        """Registers a received value, whose gradient this part must send to `source`."""
        self._owed[tag] = source, value.detach()

    def pay(self, gradient: Tensor, source: int, tag: int) -> None:
        """Sends the gradient that `owe` registered under this tag."""
        del self._owed[tag]
        self.send(gradient, source, tag)

    def expect(self, value: Tensor, to: int, tag: int) -> None:
        """Registers a sent value, whose gradient the part of rank `to` sends."""
        self._expected[to, tag] = torch.empty_like(value, device="meta")

    def gradient(self, to: int, tag: int) -> Tensor:
        """Receives the gradient that `expect` registered."""
        like = self._expected.pop((to, tag))
        return self.receive(torch.empty(like.shape, dtype=like.dtype), to, tag)

    def settle(self) -> None:
        """Sends gradients of 0 for values without effect on the loss, and drops those that backward did not need, then
        waits for all sends. For the end of backward: the parts that made these values wait for their gradients."""
        for tag, (source, value) in list(self._owed.items()):
            self.pay(torch.zeros_like(value), source, tag)
        for (to, tag), like in self._expected.items():
            dist.recv(torch.empty(like.shape, dtype=like.dtype), group=self.group, group_src=to, tag=tag)
        self._expected.clear()
        for work, _ in self._begun:
            work.wait()
        self._begun.clear()


class _Send(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, wire: StageLink, to: int, tag: int) -> Tensor:
        ctx.of = wire, to, tag
        wire.send(value, to, tag)
        return torch.zeros(())  # real, for every type of the value: backward begins at it

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None, None, None]:
        wire, to, tag = ctx.of
        return wire.gradient(to, tag), None, None, None


class _Receive(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchor: Tensor, value: Tensor, wire: StageLink, source: int, tag: int) -> Tensor:
        """Returns the value. `anchor` is a leaf that requires a gradient, so that autograd calls `backward`."""
        ctx.of = wire, source, tag
        wire.owe(source, tag, value)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, ...]:
        wire, source, tag = ctx.of
        wire.pay(gradient, source, tag)
        return None, None, None, None, None


def send(value: Tensor, *, to: int, tag: int, with_gradient: bool) -> Tensor:
    """Begins to send the value. Returns a scalar from which backward() starts, receiving the value's gradient.
    `with_gradient`: as of the `receive` there. GradientNotSent: if the value requires one without it."""
    wire = _WIRE.get()
    if value.requires_grad and not with_gradient:
        raise GradientNotSent(value, to, tag)
    if with_gradient:
        wire.expect(value, to, tag)
    if value.requires_grad:
        return _Send.apply(value, wire, to, tag)
    wire.send(value, to, tag)
    return torch.zeros(())


def receive(*, source: int, tag: int, shape: tuple[int, ...], dtype: torch.dtype, with_gradient: bool) -> Tensor:
    """Returns the received value; backward sends its gradient to `source`."""
    wire = _WIRE.get()
    value = wire.receive(torch.empty(shape, dtype=dtype), source, tag)
    if not with_gradient:
        return value
    return _Receive.apply(torch.zeros((), requires_grad=True), value, wire, source, tag)
