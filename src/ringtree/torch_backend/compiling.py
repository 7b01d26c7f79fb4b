"""Keeps torch.compile from compiling the backend itself.

Between the graphs that it made of a program, torch looks at every Python function that begins, for what else may become
a graph. Where torch's C++ calls a process group, as DDP does before a forward pass, that function would be ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])


def opaque(function: Function) -> Function:
    """Marks the function: torch compiles neither it nor its callees. The mark costs nothing at a call."""
    frames: Any = torch._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))
    return function
