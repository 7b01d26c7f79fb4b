"""A schedule of your own: written as data, printed, proved, executed. And what happens when it is wrong.

On four ranks: pairs of neighbours exchange and add, then pairs across do. Two rounds, by recursive doubling.
"""

import numpy as np

import ringtree
from ringtree import verify
from ringtree.ir.schedule import Block, Schedule, Transfers

rank = np.arange(4)


def recursive_doubling(distances):
    """In each round, rank r sends all it has to the rank whose number differs in one bit, which adds it to its own."""
    rounds = [Transfers.of(rank, rank ^ d, reduce=True, round=i) for i, d in enumerate(distances)]
    return Schedule("mine", "all_reduce", ranks=4, chunks=1, blocks=(Block(Transfers.concatenate(rounds)),))


def use(comm, schedule):
    return comm.execute(schedule, np.array([10.0**comm.rank]))


if __name__ == "__main__":
    schedule = recursive_doubling([1, 2])
    print(schedule)
    print(verify.prove(schedule))
    for r, total in enumerate(ringtree.spawn(use, 4, schedule)):
        print(f"rank {r} has {total}")

    wrong = recursive_doubling([1, 1])
    try:
        verify.prove(wrong)
    except verify.ProofError as refusal:
        print(f"\nrefused: {refusal}")
