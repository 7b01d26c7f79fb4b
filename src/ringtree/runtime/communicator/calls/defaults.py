"""The algorithm of calls that name none, as far as the environment or the group asks for one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from ringtree.algorithms import find
from ringtree.ir.collective import COLLECTIVES
from ringtree.runtime.communicator.calls.ordering import accumulate_of, deterministic_of, kept_order, rounded_once

if TYPE_CHECKING:
    from ringtree.ir.schedule import Schedule
    from ringtree.runtime.types import Dtype


class Defaults:
    """`named`: the text of RINGTREE_ALGORITHM, None where it is not set; `forced`: the algorithms that it names, by
    collective; `reductions`: the order and the type of partial sums asked of all reductions (ordering.promises)."""

    def __init__(self, reductions: tuple[bool | str, str | None] | None) -> None:
        """`reductions`: the group's; None takes the environment's."""
        self.named = os.environ.get("RINGTREE_ALGORITHM") or None
        self.forced = forced_of(os.environ)
        self.reductions = reductions or (deterministic_of(os.environ), accumulate_of(os.environ))

    def keeping(self, collective: str, dtype: Dtype) -> str | Schedule | None:
        """The algorithm, or the word for any, that keeps what is asked of reductions; None where nothing is asked."""
        deterministic, accumulate = self.reductions
        if not (deterministic or accumulate) or not COLLECTIVES[collective].reduces or COLLECTIVES[collective].repeats:
            return None
        order = rounded_once(accumulate, deterministic, dtype)
        return kept_order(order, collective, self.forced.get(collective)) if order else None


def forced_of(env: Mapping[str, str]) -> dict[str, str]:
    """The algorithms that RINGTREE_ALGORITHM names, by collective. ValueError: for a name that is none."""
    named = env.get("RINGTREE_ALGORITHM")
    return _serving(named) if named else {}


@cache
def _serving(wished: str) -> dict[str, str]:
    """The first of the named algorithms that serves each collective, by collective."""
    names = wished.split(",")
    try:
        return {collective: name for name in reversed(names) for collective in find(name).serves}
    except ValueError as refusal:
        raise ValueError(f"RINGTREE_ALGORITHM is {wished!r}: {refusal}") from None
