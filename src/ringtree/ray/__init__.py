"""A front end: ranks that Ray places on the nodes of its cluster, and groups of a program's own actors.

    import ringtree.ray
    results = ringtree.ray.run(fn, 8, per_node=4)

    ray.init(runtime_env={"worker_process_setup_hook": ringtree.ray.register_collective_backend})
    ray.util.collective.init_collective_group(size, rank, backend="ringtree")   # in each actor

`ray` in this folder is Ray's own package: imports are absolute. It is imported with the first run, and with the
registration.
"""

from __future__ import annotations

from ringtree.ray.registration import register_collective_backend
from ringtree.ray.run import run

__all__ = ["register_collective_backend", "run"]
