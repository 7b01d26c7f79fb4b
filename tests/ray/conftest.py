"""A cluster of Ray's with two nodes on this machine."""

from __future__ import annotations

import os
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


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """The cluster, to which this process is connected. Its processes report to nobody."""
    import ray
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_TRAIN_ENABLE_STATE_TRACKING", "0")
        patch.setenv("PYTHONPATH", str(ROOT))  # ranks import the tests
        for name in [name for name in os.environ if name.startswith("RINGTREE_")]:
            patch.delenv(name)
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
