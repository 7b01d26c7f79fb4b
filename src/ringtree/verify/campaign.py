"""Proves many schedules and their programs, on several processes."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ringtree.ir.lower import lower
from ringtree.ir.schedule import Schedule
from ringtree.verify.programs import prove_programs
from ringtree.verify.schedules import prove

Case = tuple[str, Callable[[], Schedule]]
"""A name for messages, and the function that builds the schedule (in the process that proves it)."""

ProgressCallback = Callable[[int, int], None]
"""Called with the number of finished cases, and of all cases."""

BegunCallback = Callable[[str, int], None]
"""Called with the name of a case that is about to be proved and the number of its transfers, in the process that proves
it: a function that can be pickled."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that was refused, or could not be built, and why."""

    name: str
    message: str

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a campaign. `slots`: the most that any set of programs needs, `hungriest`: that set's name;
    `left_out`: the cases with more transfers than the given limit."""

    schedules: int = 0
    transfers: int = 0
    programs: int = 0
    instructions: int = 0
    slots: int = 0
    hungriest: str = ""
    failures: tuple[Failure, ...] = ()
    left_out: tuple[Failure, ...] = ()

    def __str__(self) -> str:
        slots = f"; slots needed: {self.slots} ({self.hungriest})" if self.slots else ""
        failed = f"; {len(self.failures)} refused" if self.failures else ""
        left_out = f"; {len(self.left_out)} left out" if self.left_out else ""
        return (
            f"proved {self.schedules} schedules with {self.transfers} transfers, {self.programs} programs with "
            f"{self.instructions} instructions{slots}{failed}{left_out}"
        )


@dataclass(frozen=True, slots=True)
class _Outcome:
    name: str
    transfers: int = 0
    programs: int = 0
    instructions: int = 0
    slots: int = 0
    failure: str | None = None
    left_out: str | None = None


def prove_many(
    cases: Iterable[Case],
    *,
    programs: bool = True,
    processes: int = 2,
    progress: ProgressCallback | None = None,
    begun: BegunCallback | None = None,
    most_transfers: int | None = None,
) -> Report:
    """Proves every case's schedule and, unless it has switches or `programs` is False, the programs it lowers to.

    A refused case raises nothing: it is among the failures; a case with more than `most_transfers` is among those left
    out. Where the platform cannot fork, one process does it all.
    """
    listed = list(cases)
    outcomes: list[_Outcome] = []
    prove_case = partial(_prove_case, programs=programs, begun=begun, most_transfers=most_transfers)
    for outcome in _outcomes(listed, prove_case, min(processes, len(listed))):
        outcomes.append(outcome)
        if progress is not None:
            progress(len(outcomes), len(listed))
    hungriest = max(outcomes, key=lambda o: o.slots, default=_Outcome(""))
    return Report(
        sum(o.failure is None and o.left_out is None for o in outcomes),
        sum(o.transfers for o in outcomes),
        sum(o.programs for o in outcomes),
        sum(o.instructions for o in outcomes),
        hungriest.slots,
        hungriest.name if hungriest.slots else "",
        tuple(Failure(o.name, o.failure) for o in outcomes if o.failure is not None),
        tuple(Failure(o.name, o.left_out) for o in outcomes if o.left_out is not None),
    )


_cases: Sequence[Case] = ()  # inherited by forked workers, so that builders need not be picklable


def _outcomes(cases: Sequence[Case], prove_case: Callable[[Case], _Outcome], processes: int) -> Iterator[_Outcome]:
    """Outcomes in the order of the cases."""
    # here, for `verify` is loaded by a program's first call, which proves one schedule at most
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    global _cases
    if processes < 2 or "fork" not in multiprocessing.get_all_start_methods():
        yield from map(prove_case, cases)
        return
    _cases = cases
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_start_worker)
    try:
        yield from pool.map(partial(_prove_number, prove_case), range(len(cases)), chunksize=4)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        _cases = ()


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, and stops the workers
    gc.disable()  # programs are many small tuples without cycles: the collector only walks them, a third of the time


def _prove_number(prove_case: Callable[[Case], _Outcome], number: int) -> _Outcome:
    return prove_case(_cases[number])


def _prove_case(case: Case, programs: bool, begun: BegunCallback | None, most_transfers: int | None) -> _Outcome:
    name, build = case
    try:
        schedule = build()
        if most_transfers is not None and schedule.transfers > most_transfers:
            return _Outcome(name, left_out=f"{schedule.transfers:,} transfers, more than {most_transfers:,}")
        if begun is not None:
            begun(name, schedule.transfers)
        proof = prove(schedule)
        if not programs or schedule.switches:
            return _Outcome(name, proof.transfers)
        lowered = prove_programs(lower(schedule))
    except ValueError as refusal:
        return _Outcome(name, failure=str(refusal))
    except Exception as error:  # noqa: BLE001 - a builder's bug is this case's failure; the others are still proved
        return _Outcome(name, failure=f"{type(error).__name__}: {error}")
    return _Outcome(name, proof.transfers, lowered.ranks, lowered.instructions, lowered.slots)
