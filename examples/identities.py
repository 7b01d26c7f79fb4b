"""The algebra of collectives: all_reduce and all_gather composed of others in three ways, each proved and run.

    all_reduce = reduce, then broadcast
    all_reduce = reduce_scatter, then all_gather
    all_gather = gather, then broadcast

The parts may come from different algorithms; what is composed is a schedule like any other, so it is proved like one,
and runs like one: on real ranks it gives what the collective itself gives.
"""

import numpy as np

import ringtree
from ringtree.algorithms import build
from ringtree.ir.lower import lower
from ringtree.transform import pipeline
from ringtree.verify import ProofError, prove, prove_programs

RANKS = 6


def same(comm, schedule):
    """Whether the schedule gives this rank what the collective gives it."""
    x = np.arange(12) * (comm.rank + 1)
    return np.array_equal(comm.execute(schedule, x), getattr(comm, schedule.collective)(x))


def show(schedule):
    print(schedule)
    print(prove(schedule))
    print(prove_programs(lower(schedule)))
    print(f"the busiest rank sends {schedule.chunks_sent().max() / schedule.chunks:.3g} vectors")
    print(f"as {schedule.collective} itself on every rank: {all(ringtree.spawn(same, RANKS, schedule))}\n")


if __name__ == "__main__":
    up, down = build("binomial", "reduce", RANKS), build("binary_tree", "broadcast", RANKS)
    show(up.then(down, "all_reduce", "reduce-broadcast"))

    scatter, gather = build("circulant", "reduce_scatter", RANKS), build("ring", "all_gather", RANKS)
    show(scatter.then(gather, "all_reduce", "scatter-gather"))

    collect, chain = build("binomial", "gather", RANKS), build("chain", "broadcast", RANKS)
    show(collect.then(pipeline(chain, RANKS), "all_gather", "gather-broadcast"))

    try:
        prove(gather.then(scatter, "all_reduce", "gather-scatter"))
    except ProofError as refusal:
        print(f"the other way round it is refused: {refusal}")
