"""vLLM's platform for CPUs, with another backend and another communicator."""

from __future__ import annotations

from typing import Any

from vllm.platforms import cpu_platform_plugin
from vllm.utils.import_utils import resolve_obj_by_qualname

from ringtree.torch_backend.registration import NAME

ITS_OWN: Any = resolve_obj_by_qualname(cpu_platform_plugin())
"""The platform that vLLM would have chosen: one for all CPUs, or one for a vendor's."""


class CpuPlatform(ITS_OWN):
    """The platform that vLLM would have chosen, with groups of the backend ringtree."""

    dist_backend: str = NAME

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """The communicator's class, by its module."""
        return "ringtree.vllm.communicator.GroupCommunicator"
