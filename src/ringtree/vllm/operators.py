"""Collectives as torch's operators, which a compiled graph calls without a look inside.

    torch.ops.ringtree.all_reduce_(tensor, group)            adds up in place
    torch.ops.ringtree.all_gather_into(out, tensor, group)   `out` is [ranks, ...]

They change an argument and return nothing, so a graph needs no copy and no memory for a result. `group` is a number, as
graphs keep no objects; it counts this process's groups, as graphs are kept from start to start.
"""

from __future__ import annotations

import torch

from ringtree.runtime.communicator.calls.codes import CODE
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.torch_backend.calls.launching import made_shortly
from ringtree.torch_backend.tensors import filled, plain

ALL_REDUCE, ALL_GATHER = CODE["all_reduce"], CODE["all_gather"]
LIBRARY = torch.library.Library("ringtree", "DEF")
GROUPS: list[Communicator | None] = []


def number(communicator: Communicator) -> int:
    """The group's number to operators."""
    GROUPS.append(communicator)
    return len(GROUPS) - 1


def forget(group: int) -> None:
    """Lets go of the communicator. Numbers are not used again."""
    GROUPS[group] = None


def _all_reduce_(tensor: torch.Tensor, group: int) -> None:
    communicator = _of(group)
    if not made_shortly(communicator, ALL_REDUCE, tensor, tensor, "sum"):
        x = plain(tensor)
        communicator.all_reduce(x, "sum", out=x)


def _all_gather_into(out: torch.Tensor, tensor: torch.Tensor, group: int) -> None:
    communicator = _of(group)
    if not made_shortly(communicator, ALL_GATHER, tensor, out, ""):
        communicator.all_gather(plain(tensor), out=filled(out)[0])


def _of(group: int) -> Communicator:
    communicator = GROUPS[group] if 0 <= group < len(GROUPS) else None
    if communicator is None:
        raise ValueError(f"no group {group} is open: expected one of the {len(GROUPS)} made so far")
    return communicator


def _define() -> None:
    for schema, kernel in (
        ("all_reduce_(Tensor(a!) tensor, int group) -> ()", _all_reduce_),
        ("all_gather_into(Tensor(a!) out, Tensor tensor, int group) -> ()", _all_gather_into),
    ):
        name = LIBRARY.define(schema)
        LIBRARY.impl(name, kernel, "CPU")
        LIBRARY.impl(name, lambda *_: None, "Meta")


_define()
