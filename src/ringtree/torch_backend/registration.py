"""Registers the backend "ringtree" with torch. Costs next to nothing: code that serves a group is loaded with the
group."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from importlib import import_module
from typing import Any, NamedTuple
from weakref import WeakSet

NAME = "ringtree"
DEVICES = ("cpu", "cuda")
"""The devices whose tensors a group serves."""
REPLACES = "RINGTREE_REPLACES"
"""The environment's variable with the backends whose place is taken."""
REPLACING = "ringtree.torch_backend.replacing"

SERVES = {
    "BackendBase": ("ringtree.torch_backend.backend_base", "Backend"),
    "ProcessGroup": ("ringtree.torch_backend.process_group", "ProcessGroup"),
}
"""Our class and its module, by the class of torch's that it derives from: the first that torch has."""
IN_A_PLACE = ("ringtree.torch_backend.stand_in", "StandIn")
"""The class of groups in another backend's place, up to torch 2.13."""
JOINS = "ringtree.torch_backend.creation"


class TakenPlace(NamedTuple):
    """The place of another backend, in which a group serves tensors on the CPU. `others`: the backends that were asked
    for on other devices."""

    asked: str
    others: dict[str, str]


OLDEST = (2, 7)
"""The oldest torch that keeps the Work of a backend written in Python as long as its own code waits for it (PyTorch's
pull request 146376). Under 2.6 a wait for a functional collective may never end."""

made_here: WeakSet[Any] = WeakSet()
"""The backends of this process's groups, as long as the groups are referenced."""


def register() -> None:
    """Registers the backend with torch.distributed; a repeated call does no harm."""
    try:
        import torch
        import torch.distributed as dist
    except ImportError as error:
        raise ImportError(f"ringtree.torch_backend needs torch ({error}): pip install torch") from None
    if dist.is_available():
        # what asks torch for a backend's device takes another than the CPU's where there is one
        devices = DEVICES if torch.backends.cuda.is_built() else DEVICES[:1]
        dist.Backend.register_backend(NAME, create, extended_api=True, devices=list(devices))


def autoload() -> None:
    """The entry point `torch.backends`, which torch calls as it is imported. Importing this module has registered; here
    backends are replaced, where the environment says so."""
    if names := os.environ.get(REPLACES):
        import_module(REPLACING).replace_all(names)


def create(options: Any, pg_options: Any) -> Any:
    """This rank's part of a new group, which its members make together. `options`: torch's
    _DistributedBackendOptions; `pg_options`: a TakenPlace, or the program's, of which there are none."""
    import torch.distributed as dist

    _refuse_old()
    base = next(name for name in SERVES if hasattr(dist, name))
    if base == "ProcessGroup":
        _refuse_mixtures(sys._getframe(1).f_locals.get("backend_config"))
    placed = base == "ProcessGroup" and isinstance(pg_options, TakenPlace)
    module, name = IN_A_PLACE if placed else SERVES[base]
    part: Any = getattr(import_module(module), name)
    join = import_module(JOINS).join
    timeout: timedelta = options.timeout
    members = tuple(options.global_ranks_in_group)  # none: the default group
    ranks = members or range(options.group_size)
    default = served(dist.group.WORLD) if members else None
    parent = default.communicator if default is not None else None
    store, rank = options.store, options.group_rank
    if getattr(options, "enable_reconfigure", False):  # alone until `reconfigure` names the members
        store, rank, ranks, parent = dist.PrefixStore(f"alone/{rank}", store), 0, range(1), None
    made = part(join(store, rank, ranks, timeout.total_seconds(), parent), options.store, timeout)
    made_here.add(made)
    made._set_group_name(options.group_id)
    if placed:
        made.take(pg_options)
    if parent is None:
        made.listen()
    return made


def served(group: Any) -> Any:
    """The object that serves a process group of torch's: the group itself up to torch 2.13, its backend for the CPU
    after. None where that is another backend's."""
    import torch

    if hasattr(group, "communicator"):
        return group
    try:
        found = group._get_backend(torch.device("cpu"))
    except (AttributeError, RuntimeError):  # no group, or none for the CPU
        return None
    return found if hasattr(found, "communicator") else None


def _refuse_old() -> None:
    import torch

    found = torch.__version__
    if tuple(int(part) for part in found.split(".")[:2]) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise RuntimeError(
            f"torch {found} frees a call of a backend written in Python while it may still wait for it; expected torch "
            f"{oldest} or later: pip install '.[torch]'"
        )


def _refuse_mixtures(config: Any) -> None:
    """Refuses other backends for other devices: up to 2.13 torch uses this group for all of them and drops the others'
    backends silently. Only the frame that calls `create` has the requested backends."""
    devices = config.get_device_backend_map() if config is not None else {"cpu": NAME}
    if "cpu" not in devices or set(devices) - set(DEVICES) or set(devices.values()) != {NAME}:
        asked = ",".join(f"{device}:{backend}" for device, backend in devices.items())
        raise ValueError(
            f"backend {asked!r}: in a group of this torch nothing serves beside a backend that is written in Python; "
            f'make the group with "{NAME}", and others with new_group(backend=...)'
        )
