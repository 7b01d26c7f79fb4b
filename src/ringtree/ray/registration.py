"""The backend "ringtree" of ray.util.collective. Its class derives from one of Ray's, so it is loaded with Ray."""

from __future__ import annotations

from importlib import import_module

NAME = "ringtree"
SERVES = "ringtree.ray.collective_group"


def register_collective_backend() -> None:
    """Registers the backend "ringtree" of ray.util.collective in this process; a repeated call does no harm.

    Ray wants it in the driver and in every actor's process: give this function to ray.init as the runtime
    environment's "worker_process_setup_hook", or call it in each actor. ImportError: without Ray, or with one whose
    backends cannot be registered.
    """
    try:
        from ray.util.collective.backend_registry import _global_registry
        from ray.util.collective.backend_registry import register_collective_backend as register
    except ImportError as error:
        raise ImportError(
            f"ringtree.ray.register_collective_backend needs a Ray that has ray.util.collective.backend_registry, as "
            f"2.60 does ({error}): pip install ray --upgrade"
        ) from None
    if not _global_registry.is_registered(NAME):
        register(NAME, import_module(SERVES).CollectiveGroup)
