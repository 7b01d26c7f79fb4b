"""Messages and groups: a ring of neighbours in a batch, which cannot deadlock; then even and odd ranks apart."""

import numpy as np

import ringtree


def neighbours(comm):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    got = np.empty(1, dtype=np.int64)
    with comm.batch() as both:
        both.send(np.array([comm.rank]), right)
        both.recv(got, left)

    side = comm.split(color=comm.rank % 2)
    together = side.all_gather(np.array([comm.rank]))
    return int(got[0]), together.ravel().tolist()


if __name__ == "__main__":
    for rank, (heard, side) in enumerate(ringtree.spawn(neighbours, 4)):
        print(f"rank {rank} heard from {heard}; on its side are {side}")
