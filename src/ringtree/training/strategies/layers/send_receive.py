"""The Send and Recv of a graph that is cut into parts (cut_pass.py), and of the gradients that go the other way.

No order of them can come to a deadlock. A send is only begun, and waited for when the step is done, so what a part
waits for is receives alone. Forward, it receives from earlier parts alone: the first part waits for none, and so ends;
a part ends when all before it do. Backward the same holds from the last part on, for gradients come from later parts
alone. Messages are told apart by the value's tag, so it does not matter in which order autograd asks for them.
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

from ringtree.torch_backend import communicator

_WIRE: ContextVar[StageLink] = ContextVar("wire")


class StageLink:
    """What the Sends and Recvs of a part go over while its block runs: a group whose k-th rank has the k-th part."""

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self.group = group
        self._begun: list[tuple[dist.Work, Tensor]] = []
        self._owed: dict[int, tuple[int, Tensor]] = {}
        self._span = ExitStack()

    def __enter__(self) -> None:
        self._token = _WIRE.set(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _WIRE.reset(self._token)

    def send(self, value: Tensor, to: int, tag: int) -> None:
        value = value.detach().contiguous()
        self._begun.append((dist.isend(value, group=self.group, group_dst=to, tag=tag), value))

    def receive(self, into: Tensor, source: int, tag: int) -> Tensor:
        """Waits, which in a trace is no part of the pass that this is called in."""
        self._span.close()
        dist.recv(into, group=self.group, group_src=source, tag=tag)
        self._span.enter_context(communicator().span(self._pass))
        return into

    @contextmanager
    def work(self, name: str) -> Iterator[None]:
        """While its block runs, this rank is at this pass."""
        self._pass = name
        with self._span:
            self._span.enter_context(communicator().span(name))
            yield

    def owe(self, source: int, tag: int, value: Tensor) -> None:
        """A gradient of this value is expected of this part."""
        self._owed[tag] = source, value.detach()

    def pay(self, gradient: Tensor, source: int, tag: int) -> None:
        del self._owed[tag]
        self.send(gradient, source, tag)

    def settle(self) -> None:
        """When backward is done: values that came to nothing have a gradient of 0, which their makers wait for."""
        for tag, (source, value) in list(self._owed.items()):
            self.pay(torch.zeros_like(value), source, tag)
        for work, _ in self._begun:
            work.wait()
        self._begun.clear()


class _Send(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, wire: StageLink, to: int, tag: int) -> Tensor:
        ctx.of, ctx.like = (wire, to, tag), torch.empty_like(value, device="meta")
        wire.send(value, to, tag)
        return torch.zeros(())  # real, whatever the value is: backward begins at it

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None, None, None]:
        wire, to, tag = ctx.of
        return wire.receive(torch.empty(ctx.like.shape, dtype=ctx.like.dtype), to, tag), None, None, None


class _Receive(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchor: Tensor, value: Tensor, wire: StageLink, source: int, tag: int) -> Tensor:
        """The anchor asks for a gradient, as a graph's leaf has to, and has no value of its own."""
        ctx.of = wire, source, tag
        wire.owe(source, tag, value)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, ...]:
        wire, source, tag = ctx.of
        wire.pay(gradient, source, tag)
        return None, None, None, None, None


def send(value: Tensor, *, to: int, tag: int) -> Tensor:
    """Begins to send the value. What it gives is for backward() to begin at, and receives the value's gradient."""
    if value.requires_grad:
        return _Send.apply(value, _WIRE.get(), to, tag)
    _WIRE.get().send(value, to, tag)
    return torch.zeros(())


def receive(*, source: int, tag: int, shape: tuple[int, ...], dtype: torch.dtype, with_gradient: bool) -> Tensor:
    """The value, whose gradient is sent back in backward."""
    wire = _WIRE.get()
    value = wire.receive(torch.empty(shape, dtype=dtype), source, tag)
    if not with_gradient:
        return value
    return _Receive.apply(torch.zeros((), requires_grad=True), value, wire, source, tag)
