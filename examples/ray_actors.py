"""Actors of Ray's that call collectives: each gives its number, each gets the sum.

    python examples/ray_actors.py --actors 4

Without a cluster Ray makes one of this machine. Needs Ray: pip install '.[ray]'.
"""

import argparse

import numpy as np
import ray
from ray.util import collective

import ringtree.ray


@ray.remote
class Member:
    """A member of a group."""

    def total(self, rank: int, size: int) -> float:
        """Joins the group, and returns the sum of its members' numbers."""
        collective.init_collective_group(size, rank, backend="ringtree")
        x = np.array([float(rank)])
        collective.allreduce(x)
        return float(x[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actors", type=int, default=2)
    size = parser.parse_args().actors
    ray.init(runtime_env={"worker_process_setup_hook": ringtree.ray.register_collective_backend})
    members = [Member.remote() for _ in range(size)]
    totals = ray.get([member.total.remote(rank, size) for rank, member in enumerate(members)])
    for rank, total in enumerate(totals):
        print(f"rank {rank} has {total:g}")
