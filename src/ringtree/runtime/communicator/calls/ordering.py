"""The bits of a reduction that a caller asks for: the order of its additions, and where partial sums are rounded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ringtree import plan, verify
from ringtree.ir.schedule import Schedule
from ringtree.runtime import arrays
from ringtree.runtime.communicator.calls.codes import BALANCED, RANK_ORDER
from ringtree.runtime.types import SHORT_FLOATS

if TYPE_CHECKING:
    from ringtree.runtime.types import Dtype

ORDERS = {"rank_order": RANK_ORDER, "ranks": BALANCED}
"""The orders, and the words for any algorithm that keeps them."""
ACCUMULATED = "float32"


def kept_order(
    deterministic: bool | str,
    collective: str,
    algorithm: str | Schedule | None,
    accumulate: str | None = None,
    x: Any = None,
    dtype: Any = None,
) -> str | Schedule | None:
    """The algorithm that the promises leave: a name, a schedule, or the word for any that keeps them. `x` and `dtype`
    are the call's, whose type decides whether `accumulate` asks for anything. ValueError: if the algorithm does not
    keep them, or nothing can."""
    if accumulate is None and algorithm is None and type(deterministic) is str and deterministic in ORDERS:
        return ORDERS[deterministic]
    kind = arrays.readable(x, dtype, on_device=True).dtype if accumulate is not None and x is not None else None
    deterministic = rounded_once(accumulate, deterministic, kind)
    order, _ = promises(deterministic, accumulate)
    if not order:
        return algorithm
    return _balanced(collective, algorithm) if order == "ranks" else _at_once(collective, algorithm)


def rounded_once(accumulate: str | None, deterministic: bool | str, kind: Dtype | None) -> bool | str:
    """The order by which sums of this type are accumulated as asked: the short floats' are where all contributions
    are added up at once. ValueError: if no order does so and keeps `deterministic`, too."""
    if accumulate is None:
        return deterministic
    if accumulate != ACCUMULATED:
        raise ValueError(f"accumulate={accumulate!r}: expected None or 'float32'")
    if kind not in SHORT_FLOATS:
        return deterministic
    if deterministic == "ranks":
        raise ValueError(
            f"deterministic='ranks' rounds each partial sum to {kind.label}, and accumulate='float32' none: expected "
            "one of them, or an x of float32"
        )
    return "rank_order"


def _at_once(collective: str, algorithm: str | Schedule | None) -> str | Schedule:
    if algorithm is None:
        return RANK_ORDER
    if isinstance(algorithm, Schedule):
        name, found = algorithm.name, verify.rank_order(algorithm)
    elif isinstance(algorithm, str):
        name, found = algorithm, plan.order(algorithm, collective)
    else:
        name, found = repr(algorithm), verify.ReductionOrder.ANY
    if found < verify.ReductionOrder.FOLD:
        raise ValueError(
            f"{name} does not reduce {collective} in rank order at once: deterministic='rank_order' expects one "
            f"of {', '.join(plan.at_once(collective))}"
        )
    return algorithm


def _balanced(collective: str, algorithm: str | Schedule | None) -> str | Schedule:
    """A name is looked at where the number of ranks is known (plan.steps_for)."""
    if not isinstance(algorithm, Schedule):
        return BALANCED + (algorithm or "")
    if not verify.is_balanced(algorithm):
        raise ValueError(
            f"{algorithm.name} does not add up {collective} in a balanced tree: deterministic='ranks' expects that of "
            "a schedule, as ringtree.transform.balance makes it of one that reduces at once"
        )
    return algorithm


def promises(deterministic: bool | str, accumulate: str | None) -> tuple[bool | str, str | None]:
    """Both, as what is asked of all of a group's reductions. ValueError: if one of them is no such promise."""
    if deterministic not in (False, True, *ORDERS):
        raise ValueError(f"deterministic={deterministic!r}: expected False, True, 'rank_order' or 'ranks'")
    rounded_once(accumulate, False, None)
    return False if deterministic is True else deterministic, accumulate


def deterministic_of(env: Mapping[str, str]) -> bool | str:
    """The order of every reduction by RINGTREE_DETERMINISTIC; False by default. ValueError: if it is no order."""
    given = env.get("RINGTREE_DETERMINISTIC") or ""
    if given and given not in ORDERS:
        raise ValueError(f"RINGTREE_DETERMINISTIC is {given!r}: expected {' or '.join(ORDERS)}")
    return given or False


def accumulate_of(env: Mapping[str, str]) -> str | None:
    """The type of every reduction's partial sums by RINGTREE_ACCUMULATE; None by default. ValueError: if it is no such
    type."""
    given = env.get("RINGTREE_ACCUMULATE") or None
    if given not in (None, ACCUMULATED):
        raise ValueError(f"RINGTREE_ACCUMULATE is {given!r}: expected {ACCUMULATED}")
    return given
