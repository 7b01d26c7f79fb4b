"""The rule by which the shared-memory engine picks an algorithm.

Inside one machine every rank reaches every other in one step, so the direct algorithms have the fewest meetings and
the fewest bytes both: one shot while latency is what counts, two shot once bytes do. One shot moves (n-1)*S bytes a
rank against two shot's 2*S*(n-1)/n, with one meeting fewer. A prefix goes along the chain then: S a rank.
"""

from __future__ import annotations

from dataclasses import dataclass

from ringtree.algorithms import serving
from ringtree.ir.collective import collective as find_collective

ONE_SHOT_NBYTES = 16 << 10
"""Up to n/2 times less than this, one shot's extra bytes cost less than two shot's second meeting."""

FIRST_CHOICE = {
    "reduce_scatter": "two_shot",
    "all_gather": "two_shot",
    "broadcast": "flat",
    "reduce": "flat",
    "gather": "flat",
    "scatter": "flat",
    "all_to_all": "pairwise",
    "barrier": "dissemination",
}

IN_RANK_ORDER = {
    "all_reduce": ("one_shot", "two_shot", "locality_tree", "parameter_server"),
    "reduce": ("flat",),
    "reduce_scatter": ("two_shot",),
    "scan": ("hillis_steele", "one_shot", "chain", "inorder_tree"),
    "exscan": ("hillis_steele", "one_shot", "chain", "inorder_tree"),
}
"""The algorithms that join only neighbours, the lower first, whatever the root; the rule's own choice first."""

AT_ONCE = {
    "all_reduce": ("one_shot", "two_shot", "parameter_server"),
    "reduce": ("flat",),
    "reduce_scatter": ("two_shot",),
    "scan": ("one_shot",),
    "exscan": ("one_shot",),
}
"""The algorithms that reduce every element once, over all ranks in order: they agree to the last bit.
The rule's own choice first, where size does not tell."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An algorithm's name and, in words, why it was chosen."""

    algorithm: str
    why: str


def choose(collective: str, ranks: int, nbytes: int, rank_order: bool = False) -> Choice:
    """The algorithm for a call; `nbytes` is the whole vector's. Every rank must ask with the same values.

    `rank_order`: one of those that agree to the last bit, which all but the chain do."""
    if rank_order and collective not in AT_ONCE:
        raise ValueError(f"no algorithm for {collective} reduces all ranks in order at once")
    prefix = find_collective(collective).prefix
    if collective == "all_reduce" or prefix:
        limit = 2 * ONE_SHOT_NBYTES // max(ranks, 2)
        if nbytes <= limit:
            return Choice("one_shot", f"{nbytes} bytes is at most {limit}: one meeting costs more than the extra bytes")
        if not prefix:
            return Choice("two_shot", f"{nbytes} bytes is more than {limit}: every rank adds up its own block")
        if rank_order:
            return Choice("one_shot", "the only algorithm that adds up a prefix at once")
        return Choice("chain", f"{nbytes} bytes is more than {limit}: every rank sends the vector once")
    if collective in FIRST_CHOICE:
        return Choice(FIRST_CHOICE[collective], f"the only rule for {collective} so far")
    raise ValueError(f"nothing to choose from for {collective!r}: algorithms serve {', '.join(serving(collective))}")


def choose_whole(collective: str, ranks: int, rank_order: bool = False) -> Choice:
    """The algorithm for a reduction by a function that takes whole vectors (or whole blocks) and may not commute.
    `rank_order`: joined one after the other.

    Each joining costs the function's time and each message some 10 us, so that n-1 of them at once are soon too many.
    """
    if collective == "all_reduce" and ranks > 4 and not rank_order:
        return Choice("locality_tree", "a tree's joinings are fewer than one after the other, and in rank order")
    table = AT_ONCE if rank_order else IN_RANK_ORDER
    if collective not in table:
        raise ValueError(f"no algorithm reduces {collective!r} in rank order: expected one of {', '.join(table)}")
    return Choice(table[collective][0], "the only rule for a Python function so far")
