"""Ranks on the nodes of Ray's cluster: each gives its number, each gets the sum.

    python examples/on_ray.py --ranks 4

Without a cluster Ray makes one of this machine. Needs Ray: pip install '.[ray]'.
"""

import argparse

import numpy as np

import ringtree.ray


def total(comm: ringtree.Communicator) -> tuple[float, int]:
    """The sum of the ranks' numbers, and the number of this rank's host."""
    return float(comm.all_reduce(np.array([comm.rank]))[0]), comm.hosts[comm.rank]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--per-node", type=int, help="ranks on each node (default: as they fit)")
    parser.add_argument("--restarts", type=int, default=0, help="new starts of all ranks after a failure")
    options = parser.parse_args()
    results = ringtree.ray.run(total, options.ranks, per_node=options.per_node, restarts=options.restarts)
    for rank, (value, host) in enumerate(results):
        print(f"rank {rank} on host {host} has {value:g}")
