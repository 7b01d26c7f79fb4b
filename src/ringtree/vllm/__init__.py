"""A front end: vLLM on CPUs, whose ranks communicate by ringtree on one host and on several.

    VLLM_PLUGINS=ringtree python -m vllm.entrypoints.openai.api_server --model MODEL --tensor-parallel-size 2

`vllm` in this folder is vLLM's own package: imports are absolute. It asks `platform` which of its platforms it runs on.
"""

from __future__ import annotations

import os
from importlib import import_module

NAME = "ringtree"
"""The plug-in's name, as VLLM_PLUGINS has it."""

__all__ = ["platform"]


def platform() -> str | None:
    """The platform's class, by its module, where VLLM_PLUGINS names this plug-in; else None, and vLLM finds its own.

    RuntimeError where vLLM is not built for CPUs, or ringtree has no engine here: vLLM logs the reason, and goes on
    with a platform of its own."""
    if NAME not in os.environ.get("VLLM_PLUGINS", "").split(","):
        return None
    if import_module("vllm.platforms").cpu_platform_plugin() is None:
        raise RuntimeError("VLLM_PLUGINS names ringtree, which serves CPUs; this vLLM is built for another device")
    import_module("ringtree.runtime.engines.engine").native_module()
    return "ringtree.vllm.cpu_platform.CpuPlatform"
