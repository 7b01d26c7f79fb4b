"""The numbers and words by which calls are known on every path."""

from __future__ import annotations

from ringtree.ir.collective import COLLECTIVES

CODE = {name: code for code, name in enumerate(COLLECTIVES)}
"""Numbers of the collectives on the fast path; a forced algorithm's calls have numbers of their own."""

RANK_ORDER = "in rank order"
"""The value, in place of an algorithm's name, for any algorithm that reduces all ranks in order at once."""
