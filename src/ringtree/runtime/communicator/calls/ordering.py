"""The order of a reduction that a caller asks for."""

from __future__ import annotations

from ringtree import plan, verify
from ringtree.ir.schedule import Schedule
from ringtree.runtime.communicator.calls.codes import RANK_ORDER


def kept_order(deterministic: bool | str, collective: str, algorithm: str | Schedule | None) -> str | Schedule | None:
    """The algorithm that a promise about the order leaves. ValueError: if it does not keep the promise."""
    if deterministic is False or deterministic is True:
        return algorithm
    if deterministic != "rank_order":
        raise ValueError(f"deterministic={deterministic!r}: expected False, True or 'rank_order'")
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
