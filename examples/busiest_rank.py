"""Why not one server that adds up and answers: the vectors that the busiest rank of an all_reduce sends.

Computed from the schedules, for 2 to 64 ranks; up to 8 the engine ran them and counted the same.
"""

import numpy as np

import ringtree
from ringtree.algorithms import build

ALGORITHMS = ("parameter_server", "sharded_server", "ring")
ELEMENTS = 840  # a multiple of all numbers up to 8, so that every chunk is as long


def received(comm):
    """Bytes from each rank, for each algorithm."""
    counted = []
    for algorithm in ALGORITHMS:
        comm.reset_counters()
        comm.all_reduce(np.ones(ELEMENTS), algorithm=algorithm)
        counted.append(comm.counters()[:, 0])
    return counted


if __name__ == "__main__":
    print("ranks  " + "  ".join(ALGORITHMS))
    for ranks in (2, 4, 8, 16, 32, 64):
        schedules = [build(algorithm, "all_reduce", ranks) for algorithm in ALGORITHMS]
        vectors = [s.chunks_sent().max() / s.chunks for s in schedules]
        if ranks <= 8:
            counted = np.array(ringtree.spawn(received, ranks)).sum(axis=0).max(axis=1) / (ELEMENTS * 8)
            assert np.allclose(counted, vectors)
        print(f"{ranks:5}  " + "  ".join(f"{v:{len(a)}.2f}" for v, a in zip(vectors, ALGORITHMS, strict=True)))
