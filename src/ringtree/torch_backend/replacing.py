"""ringtree in the place of Gloo: programs that ask torch for Gloo get ringtree's groups for tensors on the CPU.

    RINGTREE_REPLACES=gloo torchrun train.py
    ringtree.torch_backend.replace("gloo")

torch makes every group, of whatever backends, by one function of its own; `replace` puts another before it. The group
keeps the name that the program asked for: `get_backend()` and torch's own comparisons find "gloo". Who serves is one
answer on all ranks, as it follows from the arguments alone, which they have in common.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from inspect import signature
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ringtree.runtime.engines.engine import native_module
from ringtree.runtime.launch.torch_variables import replaced_of
from ringtree.torch_backend.registration import NAME, REPLACES, TakenPlace

GLOO = "gloo"
HELPER = "_new_process_group_helper"
SETTER = "_set_pg_timeout"
SET = ("cpu", "cuda")
"""The devices whose backends it sets."""
BESIDE = "beside"
"""The end of the name of a group for other devices."""
LOG = logging.getLogger(NAME)


def replace(name: str = GLOO) -> None:
    """Serves whoever asks torch for Gloo on the CPU, from now on and in this process: default groups, sub-groups, and
    the CPU's part of mixtures such as "cpu:gloo,cuda:nccl". Groups that are there remain Gloo's. All ranks call it, or
    none. A repeated call does no harm. ValueError for another name; RuntimeError where there is no native engine."""
    if name != GLOO:
        raise ValueError(f'ringtree takes the place of "{GLOO}" only; got {name!r}')
    native_module()
    helper = getattr(c10d, HELPER, None)
    if helper is None:
        raise RuntimeError(f"torch {torch.__version__} has no {HELPER}, by which ringtree takes Gloo's place")
    if not hasattr(helper, "replaced"):
        setattr(c10d, HELPER, _instead_of(helper))
        if (setter := getattr(c10d, SETTER, None)) is not None:
            setattr(c10d, SETTER, _instead_of_setting(setter))


def replace_all(names: str) -> None:
    """Replaces the backends that RINGTREE_REPLACES names, one after another with commas."""
    for name in replaced_of({REPLACES: names}):
        replace(name)


def _instead_of(helper: Callable[..., Any]) -> Callable[..., Any]:
    """torch's function that makes a group, with ringtree for the part of it that is Gloo's on the CPU."""
    options = next(name for name in ("backend_options", "pg_options") if name in signature(helper).parameters)

    @wraps(helper)
    def made(
        size: int, rank: int, ranks: list[int], backend: Any, store: Any, name: str, *more: Any, **named: Any
    ) -> Any:
        devices = c10d.BackendConfig(c10d.Backend(str(backend))).get_device_backend_map()
        if devices.get("cpu") != GLOO:
            return helper(size, rank, ranks, backend, store, name, *more, **named)
        if hasattr(dist, "BackendBase"):  # torch itself has other devices served by others
            config = ",".join(f"{device}:{NAME if device == 'cpu' else other}" for device, other in devices.items())
            found = helper(size, rank, ranks, config, store, name, *more, **named)
            _rename(found[0], backend, devices)
            return found
        others = {device: str(other) for device, other in devices.items() if device != "cpu"}
        left_out = (options,) if _refuses(named.get("device_id")) else (options, "device_id")
        ours = {word: value for word, value in named.items() if word not in left_out}
        found = helper(size, rank, ranks, NAME, store, name, *more, **ours, **{options: TakenPlace(GLOO, others)})
        group, _ = found
        if group is c10d.GroupMember.NON_GROUP_MEMBER:
            return found
        LOG.log(logging.DEBUG if ranks else logging.INFO, "%r is in the place of %s (%s)", group, backend, REPLACES)
        if set(others.values()) - {GLOO}:
            config = ",".join(f"{device}:{other}" for device, other in others.items())
            beside, _ = helper(size, rank, ranks, config, store, f"{name}/{BESIDE}", *more, **named)
            c10d._world.pg_group_ranks[beside] = {at: number for number, at in enumerate(ranks or range(size))}
            group.set_beside(beside)
        _rename(group, backend, devices)
        return found

    made.replaced = helper  # type: ignore[attr-defined]
    return made


def _refuses(device: torch.device | None) -> bool:
    """Whether torch raises for a group that is bound to the device, as it then does by itself."""
    return device is not None and (device.index is None or device.type == "cpu")


def _instead_of_setting(setter: Callable[..., None]) -> Callable[..., None]:
    """torch's function that sets a group's timeout, which by itself asks for Gloo's class or NCCL's."""

    @wraps(setter)
    def set_timeout(timeout: timedelta, group: Any = None) -> None:
        found = c10d._get_default_group() if group is None else group
        served = [found._get_backend(device) for device in found._device_types if device.type in SET]
        if ours := {backend for backend in served if _is_ours(backend)}:
            ours.pop().set_timeout(timeout)
        if not all(map(_is_ours, served)):
            setter(timeout, group)

    return set_timeout


def _is_ours(backend: Any) -> bool:
    return type(backend).__module__.startswith(f"{__package__}.")


def _rename(group: Any, backend: Any, devices: dict[str, str]) -> None:
    """Lets torch's records of a group have the backend that the program has asked for."""
    if group is c10d.GroupMember.NON_GROUP_MEMBER:
        return
    world = c10d._world
    world.pg_map[group] = (backend, world.pg_map[group][1])
    world.pg_backend_config[group] = ",".join(f"{device}:{name}" for device, name in devices.items())
