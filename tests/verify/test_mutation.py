"""One wrong transfer in a right schedule is caught, or shown harmless by an oracle that shares no code with the proof.

The verdicts must agree on every mutant: what the proof refuses gives wrong numbers, what it accepts gives right ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
import pytest

from ringtree.algorithms import build, pairs
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.lower import lower
from ringtree.ir.schedule import Schedule
from ringtree.ir.spec import ScheduleError
from ringtree.verify import ProofError, prove, prove_programs
from tests import oracle
from tests.verify.mutation import Mutant, mutants

SAMPLE = {5: 16, 8: 6}
"""Mutants of a case in the short run, by ranks; the long one takes them all."""

Counts = Counter[tuple[str, str]]  # (change, verdict)


def verdict(mutant: Mutant) -> str:
    """`caught`, `harmless`, or `illegal` where it is no schedule at all; AssertionError where the judges disagree."""
    where = f"{mutant.schedule.name} {mutant.schedule.collective}: transfer {mutant.row}, {mutant.change}"
    try:
        prove(mutant.schedule)
    except ScheduleError:
        return "illegal"
    except ProofError as refusal:
        assert oracle.wrong(mutant.schedule) is not None, f"{where}: refused, but harmless: {refusal}"
        return "caught"
    wrong = oracle.wrong(mutant.schedule)
    assert wrong is None, f"{where}: accepted, but {wrong}"
    return "harmless"


def judge(chosen: Iterable[Mutant]) -> Counts:
    return Counter((m.change, verdict(m)) for m in chosen)


def subject(name: str, collective: str, ranks: int) -> Schedule:
    return build(name, collective, ranks, 1 if COLLECTIVES[collective].rooted else None)


def report(counts: Counts, record_property: Callable[[str, object], None]) -> None:
    """Shows the counts with -s, and lets tests/conftest.py add them up at the end."""
    verdicts = Counter[str]()
    for (_, found), k in counts.items():
        verdicts[found] += k
    record_property("mutants", dict(verdicts))
    print(", ".join(f"{change} {found} {k}" for (change, found), k in sorted(counts.items())))


def check_all(name: str, collective: str, ranks: int) -> Counts:
    schedule = subject(name, collective, ranks)
    counts = judge(mutants(schedule))
    assert counts["removed", "caught"] > 0
    assert sum(counts["removed", v] for v in ("caught", "harmless", "illegal")) == schedule.transfers
    return counts


@pytest.mark.parametrize(("name", "collective"), pairs())
@pytest.mark.parametrize("ranks", [5, 8])
def test_some_wrong_transfers(
    name: str, collective: str, ranks: int, record_property: Callable[[str, object], None]
) -> None:
    every = list(mutants(subject(name, collective, ranks)))
    chosen = np.random.default_rng(ranks).permutation(len(every))[: SAMPLE[ranks]]
    counts = judge(every[k] for k in chosen.tolist())
    report(counts, record_property)
    assert sum(k for (_, found), k in counts.items() if found != "harmless") > counts.total() // 4


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "collective"), pairs())
@pytest.mark.parametrize("ranks", [5, 8])
def test_every_wrong_transfer(
    name: str, collective: str, ranks: int, record_property: Callable[[str, object], None]
) -> None:
    report(check_all(name, collective, ranks), record_property)


@pytest.mark.parametrize(("name", "collective"), pairs())
def test_programs_of_a_wrong_schedule_are_refused_alike(name: str, collective: str) -> None:
    """The proof of programs knows nothing of the schedule, and comes to the same verdict on chunks of one size, which
    are all that a schedule speaks of: in another's place, until it is overwritten, a chunk may be harmless."""
    every = list(mutants(subject(name, collective, 5)))
    chosen = np.random.default_rng(0).permutation(len(every))[:8]
    for mutant in (every[k] for k in chosen.tolist()):
        found = verdict(mutant)
        if found == "illegal":
            continue
        try:
            prove_programs(lower(mutant.schedule), even=True)
        except ProofError as refusal:
            assert found == "caught", f"{mutant.change} {mutant.row}: {refusal}"
        else:
            assert found == "harmless", f"{mutant.change} {mutant.row}: the programs are right, the schedule is not"


def test_every_kind_of_change_is_tried_and_every_other_place() -> None:
    every = Counter(m.change for m in mutants(build("ring", "all_reduce", 5)))
    rows = 2 * 4 * 5
    assert every == {
        "removed": rows,
        "duplicated": rows,
        "other rank": rows * 4,
        "other source chunk": rows * 4,
        "other target chunk": rows * 4,
        "earlier": rows - 5,
    }
