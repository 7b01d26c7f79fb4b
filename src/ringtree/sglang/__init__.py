"""A front end: SGLang on CPUs, whose ranks communicate by ringtree on one host and on several.

    SGLANG_PLUGINS=ringtree python -m sglang.launch_server --model-path MODEL --device cpu --tp 2

SGLang's groups on CPUs are Gloo's, so ringtree takes Gloo's place. On CPUs with AMX and on Arm's, where all ranks are
on one host, SGLang adds and gathers by a shared memory of its own kernels instead; its seam for plug-ins turns that
off. `sglang` below is SGLang's own package: imports are absolute.
"""

from __future__ import annotations

import os
from importlib import import_module

NAME = "ringtree"
"""The plug-in's name, as SGLANG_PLUGINS has it."""
OWN_MEMORY = "sglang.srt.distributed.parallel_state.is_shm_available"
"""The function that SGLang asks before each call whether its own shared memory serves it."""

__all__ = ["plugin"]


def plugin() -> None:
    """Gives the groups of this process, one of SGLang's, to ringtree where SGLANG_PLUGINS names it; else does nothing.

    RuntimeError where ringtree has no engine here: SGLang logs the reason, and goes on as it is."""
    if NAME not in (name.strip() for name in os.environ.get("SGLANG_PLUGINS", "").split(",")):
        return
    import_module("ringtree.torch_backend.replacing").replace()
    hooks = import_module("sglang.srt.plugins.hook_registry")
    hooks.HookRegistry.register(OWN_MEMORY, _is_never, hooks.HookType.REPLACE)


def _is_never(*asked: object) -> bool:
    return False
