"""Algorithms inside algorithms: a ring in each group of four, a double tree between the groups; then pipelined.

Any two algorithms nest. What comes out is a schedule like any other, and so is proved like any other.
"""

from ringtree import algorithms, transform, verify

if __name__ == "__main__":
    nested = algorithms.build("hierarchical", "all_reduce", 8, group=4, inner="ring", outer="double_tree")
    print(nested)
    print(verify.prove(nested))

    chain = algorithms.build("chain", "broadcast", 8)
    pieces = transform.pipeline(chain, 16)
    print(f"\na chain over 8 ranks: {chain.rounds} rounds of the whole")
    print(f"in 16 pieces: {pieces.rounds} rounds that overlap, still one block:")
    print(pieces)
    print(verify.prove(pieces))
