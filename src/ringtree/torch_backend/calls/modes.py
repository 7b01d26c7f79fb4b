"""torch's dispatch modes, which trace a program or watch its operations: they see no call of a group that is written in
Python, for torch calls it without its dispatcher.

A trace would lack the call, so it is refused; who watches is warned. Calls look for a mode only in a process that has
entered one.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import torch
from torch.utils import _python_dispatch as dispatching

from ringtree.torch_backend.tensors import all_without_data

entered = False
"""Whether this process has entered a dispatch mode since `watch`."""
depth: Any = torch._C._len_torch_dispatch_stack
"""The number of modes that this thread is within."""
_LOSE_NOTHING = ("FakeTensorMode", "FunctionalTensorMode", "_FlopCounterMode")
"""Modes that no call needs to be seen by: what two make of tensors tells the call itself, and one counts products of
matrices."""


def watch() -> None:
    """Notices the first mode that is entered."""
    push: Any = dispatching._push_mode

    def push_first(mode: Any) -> Any:
        global entered
        entered = True
        if dispatching._push_mode is push_first:
            dispatching._push_mode = push
        return push(mode)

    dispatching._push_mode = push_first


def skips(name: str, given: Any) -> bool:
    """Whether a call within modes has nothing to do, for its tensors are without data: asked before anything reads an
    address, of which torch would warn. Else warns of the modes that do not see it. RuntimeError: if one makes a
    graph."""
    if all_without_data(given):
        return True
    for mode in dispatching._get_current_dispatch_mode_stack():
        kind = type(mode).__name__
        if kind == "ProxyTorchDispatchMode":
            raise RuntimeError(
                f"{name} within make_fx: the graph would lack the call, for ringtree's groups are called without "
                "torch's dispatcher; expected the functional collectives (torch.distributed._functional_collectives)"
            )
        if kind not in _LOSE_NOTHING:
            _warn(kind)
    return False


@cache
def _warn(kind: str) -> None:
    warnings.warn(
        f"{kind} does not see ringtree's collectives, which torch calls without its dispatcher; it sees the functional "
        "ones (torch.distributed._functional_collectives)",
        stacklevel=5,
    )


watch()
