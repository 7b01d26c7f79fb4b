"""A cluster of Ray's with two nodes on this machine."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CPUS = 2
"""Of each node."""
NODES = 2
STORE_BYTES = 80 << 20
"""The least of an object store."""
SETTINGS = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_TRAIN_ENABLE_STATE_TRACKING": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONPATH": str(ROOT),
}
"""Of all processes of a cluster: they report to nobody, admit nobody else, whatever the user's own token is, and find
the tests."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """The cluster, to which this process is connected."""
    with pytest.MonkeyPatch.context() as patch:
        for name, text in SETTINGS.items():
            patch.setenv(name, text)
        for name in [name for name in os.environ if name.startswith("RINGTREE_")]:
            patch.delenv(name)
        import ray  # it reads its settings now
        from ray.cluster_utils import Cluster

        node = {"num_cpus": CPUS, "object_store_memory": STORE_BYTES, "include_dashboard": False}
        made = Cluster(initialize_head=True, head_node_args=node)
        try:
            for _ in range(1, NODES):
                made.add_node(num_cpus=CPUS, object_store_memory=STORE_BYTES)
            ray.init(address=made.address, log_to_driver=False)
            yield made
        finally:
            ray.shutdown()
            made.shutdown()
