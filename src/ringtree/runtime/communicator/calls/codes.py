"""The numbers and words by which calls are known on every path."""

from __future__ import annotations

CODE = {
    "all_reduce": 0,
    "reduce_scatter": 1,
    "all_gather": 2,
    "broadcast": 3,
    "reduce": 4,
    "gather": 5,
    "scatter": 6,
    "all_to_all": 7,
    "barrier": 8,
    "scan": 9,
    "exscan": 10,
}
"""Numbers of all collectives on the fast path; a forced algorithm's calls have numbers of their own. A rank's start
needs these, and not the collectives themselves."""

RANK_ORDER = "in rank order"
"""The value, in place of an algorithm's name, for any algorithm that reduces all ranks in order at once."""
BALANCED = "in a balanced tree "
"""The value for any algorithm that adds up by the balanced tree over ranks; before a name, that algorithm."""
