"""A front end: ranks that Ray places on the nodes of its cluster.

    import ringtree.ray
    results = ringtree.ray.run(fn, 8, per_node=4)

`ray` in this folder is Ray's own package: imports are absolute. It is imported with the first run.
"""

from __future__ import annotations

from ringtree.ray.run import run

__all__ = ["run"]
