"""A group in the place of Gloo, up to torch 2.13: ringtree serves tensors on the CPU; tensors of other devices go to
the backends that were asked for.

There a group that is written in Python is all of a process group, so calls with tensors of other devices are passed on
from here: to the backends that the program named for them, in a group of torch's own; or, where it named Gloo for all
devices, to a group of the real Gloo, which is made when the first such tensor comes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import timedelta
from functools import cache, wraps
from typing import Any

import torch
import torch.distributed as dist

from ringtree.torch_backend.process_group import CPU, ProcessGroup
from ringtree.torch_backend.registration import NAME, TakenPlace
from ringtree.torch_backend.tensors import without_data

CALLS = (
    "_allgather_base",
    "_reduce_scatter_base",
    "all_gather_single",
    "all_to_all_single",
    "allgather",
    "allgather_coalesced",
    "allgather_into_tensor_coalesced",
    "allreduce",
    "allreduce_coalesced",
    "alltoall",
    "alltoall_base",
    "broadcast",
    "gather",
    "recv",
    "recv_anysource",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor_coalesced",
    "scatter",
    "send",
)
"""torch's names of the calls that take tensors."""


class StandIn(ProcessGroup):
    """A group that a program knows by another backend's name."""

    _place = TakenPlace("", {})
    _beside: dist.ProcessGroup | None = None  # of the backends for other devices
    _real: Any = None  # Gloo's, for tensors of other devices
    _answers = False

    def take(self, place: TakenPlace) -> None:
        """Answers by the name of the backend whose place it is, in torch.profiler too, whose readers look for it."""
        self._place = place
        self._recorder.backend = place.asked

    def set_beside(self, group: dist.ProcessGroup) -> None:
        """Passes calls with tensors of other devices to a group of torch's own."""
        self._beside = group

    def name(self) -> str:
        """The name of the backend that the program has asked for."""
        return self._place.asked or NAME

    _get_backend_name = name

    def getBackendName(self) -> str:
        """As `name`, for torch's C++. DDP's log then takes the group for Gloo's class without a question, and asks for
        its threads: there must be a Gloo to answer, of this rank alone."""
        if not self._answers:
            self._register_backend(CPU, dist.ProcessGroup.BackendType.GLOO, _gloo_of_one())
            self._answers = True
        return self.name()

    @property
    def _device_types(self) -> list[torch.device]:
        return [CPU, *map(torch.device, self._place.others)]

    def _get_backend(self, device: torch.device) -> Any:
        kind = torch.device(device).type
        if kind == CPU.type or self._place.others.get(kind) == self._place.asked:
            return self  # the real Gloo would take a meeting of all members, and one of them may ask alone
        return super()._get_backend(device) if self._beside is None else self._beside._get_backend(device)

    def names(self, kind: str) -> bool:
        """Whether the program has named another backend for that kind of device."""
        return self._place.others.get(kind, self._place.asked) != self._place.asked

    def elsewhere(self, kind: str) -> Any:
        """The group that serves tensors of another kind of device."""
        if self._beside is not None and kind in self._place.others:
            return self._beside
        return self._gloo(kind)

    def _gloo(self, kind: str) -> Any:
        """The real Gloo, made by all members in the first call that needs it."""
        if self._real is None:
            _warn_of_the_real_one(self._place.asked, kind)
            timeout = timedelta(seconds=self._recorder.timeout_s)
            store = dist.PrefixStore(self._place.asked, self._store)
            self._real = dist.ProcessGroupGloo(store, self._rank, self._size, timeout)
        return self._real

    def shutdown(self) -> None:
        """Leaves the group, and what was made beside it."""
        beside, self._beside, self._real = self._beside, None, None
        if beside is not None and beside in dist.distributed_c10d._world.pg_map:
            dist.destroy_process_group(beside)
        super().shutdown()


@cache
def _warn_of_the_real_one(asked: str, kind: str) -> None:
    warnings.warn(
        f"ringtree stands in for {asked} on the CPU alone: calls with tensors on {kind} go to the real one",
        stacklevel=5,
    )


@cache
def _gloo_of_one() -> Any:
    """A group of Gloo's that sends nothing."""
    options = dist.ProcessGroupGloo._Options()
    options._devices = [dist.ProcessGroupGloo.create_device(hostname="127.0.0.1")]
    return dist.ProcessGroupGloo(dist.HashStore(), 0, 1, options)


def _first(arguments: tuple[Any, ...]) -> torch.Tensor | None:
    """A call's first tensor."""
    for x in arguments:
        while isinstance(x, (list, tuple)) and x:
            x = x[0]
        if isinstance(x, torch.Tensor):
            return x
    return None


def _passed_on(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def passed(self: StandIn, *given: Any, **named: Any) -> Any:
        x = _first((*given, *named.values()))
        if x is None or (kind := str(x.device.type)) == CPU.type or (without_data(x) and not self.names(kind)):
            return call(self, *given, **named)
        return getattr(self.elsewhere(kind), name)(*given, **named)

    return passed


for _name in CALLS:
    setattr(StandIn, _name, _passed_on(_name, getattr(ProcessGroup, _name)))
