"""The first program: every rank gives its number, every rank gets the sum.

    ringtree run -n 4 examples/hello.py

Without a launcher it is a world of one rank.
"""

import numpy as np

import ringtree

comm = ringtree.init()
x = np.full(3, comm.rank, dtype=np.float32)
total = comm.all_reduce(x, op="sum")
print(f"rank {comm.rank} of {comm.size} has {total}")
