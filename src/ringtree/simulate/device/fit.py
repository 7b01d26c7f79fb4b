"""A device's constants from measured times of its programs, by least squares of the logarithms of times.

What tables of times cannot show stays as it was: a link's share where no link was busy, the rate of reductions where
none was measured. Pieces, slices and slots are whole numbers, found by trying powers of two, one constant after the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.program import Kind, Program
from ringtree.simulate.device.constants import RANGES, DeviceConstants
from ringtree.simulate.device.least_squares import Minimum, minimum
from ringtree.simulate.device.play import PlayedCuts, seconds
from ringtree.simulate.simulation import Job, StuckError
from ringtree.topology import Topology

Floats = NDArray[np.float64]
Report = Callable[[str], None]
BOUNDS = {
    "launch_s": (1e-9, 1.0), "step_s": (1e-9, 1.0), "block_Bps": (1e6, 1e13), "link_share": (1e-2, 1.0),
    "reduce_Bps": (1e6, 1e15),
}  # fmt: skip
"""The rates and times that are fitted, and where they are looked for."""
APART = 0.02
"""The difference of a parameter's logarithm by which slopes are taken."""
QUICK_STEPS, STEPS = 4, 15
"""Steps of least squares, for each try of a whole number and at the end."""
PIECES = tuple(1 << k for k in range(12, 24))
UNCUT = int(RANGES["piece_nbytes"][1]) // 2
AGAIN = (0.5, 1, 2)
SHARES = (0.9, 0.2)
SLICES, SLOTS = (1, 2, 4, 8), (2, 4, 8)
"""The whole numbers that are tried, of slots those with which a ring plays; `AGAIN`: pieces once more, by the best of
the first time; `SHARES`: link shares to begin with, as a link that holds up none has no slope."""
THINNED = 24
"""Rows of all tables by which whole numbers are tried, and some more."""
USUAL = DeviceConstants(launch_s=8.4e-6, step_s=1.7e-6, block_Bps=1e10, link_share=0.9, slices=2)
"""The constants at which the search begins: latencies are a call's and half a hop's in NCCL's tuning tables, of a ring
by Simple."""
SPREAD = {"launch_s": 1.0, "step_s": 1.0, "link_share": 0.2}
"""The usual difference of a constant's logarithm from that of `USUAL`. What tables do not determine stays near it."""
PRIOR = 0.01
"""The typical error of a time, in its logarithm, while whole numbers are tried; at the end it is the one found."""
LEAST_PRIOR = 1e-4
FINALISTS = 3
"""The best of several tries, which are solved to the end before one is taken."""


@dataclass(frozen=True, slots=True)
class MeasuredTable:
    """Measured times of programs, over sizes of the whole vector, at least one. `notes`: what its file left open;
    `doubtful`: the number of sizes whose time the file contradicts elsewhere."""

    name: str
    programs: Sequence[Program]
    nbytes: tuple[int, ...]
    time_s: tuple[float, ...]
    notes: tuple[str, ...] = ()
    doubtful: int = 0


@dataclass(frozen=True, slots=True)
class TableErrors:
    """A table's simulated times, and the relative errors of times: by the fit, by fits without each size, and by a fit
    without the table (None where it is the only one)."""

    table: MeasuredTable
    simulated_s: Floats
    fitted: Floats
    without_size: Floats
    without_table: Floats | None = None


@dataclass(frozen=True, slots=True)
class DeviceFit:
    """`errors`: the relative standard error of each fitted constant, infinite where the tables do not determine it."""

    constants: DeviceConstants
    errors: dict[str, float]
    tables: tuple[TableErrors, ...]


def fit(tables: Sequence[MeasuredTable], topology: Topology, report: Report = lambda text: None) -> DeviceFit:
    """The constants by which the simulated times of all tables have the least squared logarithmic errors. `report` is
    called with a few words after each of `stages(tables)` stages."""
    if not tables:
        raise ValueError("no measured times to fit constants to; expected a table of some")
    problem = _Problem(tables, topology)
    constants = _tried(tables, topology, problem.scaled(USUAL), report)
    constants, best = problem.settled(constants)
    report(f"all constants: {_typical(best.residuals):.0%} off")
    errors = []
    *ends, rows = np.cumsum([len(t.nbytes) for t in tables]).tolist()
    for number, (table, fitted, alone) in enumerate(
        zip(tables, np.split(best.residuals[:rows], ends), np.split(best.left_out()[:rows], ends), strict=True)
    ):
        apart = None
        if len(tables) > 1:
            others = _Problem([*tables[:number], *tables[number + 1 :]], topology)
            apart = np.expm1(log_errors(table, topology, others.settled(constants)[0]))
            report(f"without {table.name}")
        simulated_s = np.array(table.time_s) * np.exp(fitted)
        errors.append(TableErrors(table, simulated_s, np.expm1(fitted), np.expm1(alone), apart))
    uncertain = dict(zip(problem.names, np.expm1(np.minimum(best.errors(), 700)).tolist(), strict=True))
    return DeviceFit(constants, uncertain, tuple(errors))


def fitted_names(tables: Sequence[MeasuredTable]) -> list[str]:
    """The constants of BOUNDS that are fitted to the tables: the rate of reductions where programs reduce."""
    reduces = any(i.kind == Kind.REDUCE for t in tables for p in t.programs for code in p.threads for i in code)
    return [name for name in BOUNDS if reduces or name != "reduce_Bps"]


def stages(tables: Sequence[MeasuredTable]) -> int:
    """The number of reports of a fit."""
    tries = len(_pieces(tables)) * len(SHARES) + len(AGAIN) * len(SLICES) + len(SLOTS)
    return tries + 1 + (len(tables) if len(tables) > 1 else 0)


def _tried(
    tables: Sequence[MeasuredTable], topology: Topology, constants: DeviceConstants, report: Report
) -> DeviceConstants:
    """The constants with the best whole numbers, by some rows of the tables."""
    problem = _Problem(_thinned(tables), topology)

    def best(changes: Sequence[dict[str, float]]) -> DeviceConstants:
        tried = list[tuple[float, int, DeviceConstants]]()
        for number, change in enumerate(changes):
            words = ", ".join(f"{name} {value:,}" for name, value in change.items())
            try:
                found, result = problem.solved(replace(constants, **change), QUICK_STEPS)  # type: ignore[arg-type]
            except StuckError:
                if number + 1 == len(changes) and not tried:
                    raise
                report(f"{words}: a deadlock")
                continue
            tried.append((problem.unlikely(result), number, found))
            report(f"{words}: {_typical(result.residuals):.0%} off")
        solved = [problem.solved(found, STEPS) for _, _, found in sorted(tried)[:FINALISTS]]
        return min(solved, key=lambda pair: problem.unlikely(pair[1]))[0]

    constants = best([{"piece_nbytes": p, "link_share": share} for p in _pieces(tables) for share in SHARES])
    near = [int(constants.piece_nbytes * by) for by in AGAIN]
    constants = best([{"piece_nbytes": p, "slices": slices} for p in near for slices in SLICES])
    return best([{"slots": slots} for slots in SLOTS])


def _pieces(tables: Sequence[MeasuredTable]) -> tuple[int, ...]:
    """The pieces that some table has more than one of, and those without end."""
    longest = max(int(Job(t.programs, max(t.nbytes)).chunk_nbytes.max(initial=0)) for t in tables)
    return (*(p for p in PIECES if p < longest), UNCUT)


def _thinned(tables: Sequence[MeasuredTable]) -> list[MeasuredTable]:
    """Some rows of each table, of other sizes than the next table's, always the largest."""
    by = -(-sum(len(t.nbytes) for t in tables) // THINNED)
    found = []
    for number, table in enumerate(tables):
        last = len(table.nbytes) - 1
        rows = [*range(number * by // len(tables), last, by), last]
        found.append(
            replace(table, nbytes=tuple(table.nbytes[r] for r in rows), time_s=tuple(table.time_s[r] for r in rows))
        )
    return found


def log_errors(table: MeasuredTable, topology: Topology, constants: DeviceConstants) -> Floats:
    """The logarithm of simulated over measured times, [sizes]."""
    known = PlayedCuts(table.programs)
    simulated_s = [seconds(table.programs, topology, n, constants, known) for n in table.nbytes]
    return np.log(simulated_s) - np.log(table.time_s)


def _typical(residuals: Floats) -> float:
    """The median of relative errors."""
    return float(np.median(np.abs(np.expm1(residuals))))


class _Problem:
    """Tables, and the logarithms of the constants that are fitted to them."""

    def __init__(self, tables: Sequence[MeasuredTable], topology: Topology) -> None:
        self.tables, self.topology = tables, topology
        self.measured_s = np.concatenate([t.time_s for t in tables])
        self.names = fitted_names(tables)
        self.low, self.high = np.log(np.array([BOUNDS[name] for name in self.names])).T
        self.cuts = [PlayedCuts(t.programs) for t in tables]
        self.sure = np.array([1 / SPREAD.get(name, np.inf) for name in self.names])
        self.prior = PRIOR

    def scaled(self, start: DeviceConstants) -> DeviceConstants:
        """Constants from which the search begins: the times of `start`, scaled to the shortest and longest measured."""
        largest = int(np.argmax(self.measured_s))
        sizes = [(t, n) for t in self.tables for n in t.nbytes]
        table, nbytes = sizes[largest]
        ratio = float(self.measured_s[largest]) / seconds(table.programs, self.topology, nbytes, start)
        block_Bps = float(np.clip(start.block_Bps / ratio, *BOUNDS["block_Bps"]))
        return replace(start, block_Bps=block_Bps, reduce_Bps=block_Bps if "reduce_Bps" in self.names else inf)

    def settled(self, constants: DeviceConstants) -> tuple[DeviceConstants, Minimum]:
        """The best constants near these, with a prior of the times' typical error."""
        constants, first = self.solved(constants, STEPS)
        self.prior = max(float(np.sqrt(self.cost(first) / len(self.measured_s))), LEAST_PRIOR)
        return self.solved(constants, STEPS)

    def cost(self, found: Minimum) -> float:
        """The sum of squares, without the prior."""
        rows = found.residuals[: len(self.measured_s)]
        return float(rows @ rows)

    def unlikely(self, found: Minimum) -> float:
        """-2 log of the probability of the times and the constants, by errors of unknown size; up to a summand."""
        apart = found.residuals[len(self.measured_s) :] / self.prior
        return len(self.measured_s) * float(np.log(max(self.cost(found), 1e-12))) + float(apart @ apart)

    def solved(self, constants: DeviceConstants, steps: int) -> tuple[DeviceConstants, Minimum]:
        """The best constants near these, whose whole numbers they keep."""
        reference = replace(USUAL, reduce_Bps=1.0)

        def of(logs: Floats) -> DeviceConstants:
            return replace(constants, **dict(zip(self.names, np.exp(logs).tolist(), strict=True)))

        def simulated_s(logs: Floats) -> Floats:
            now = of(logs)
            return np.array(
                [
                    seconds(t.programs, self.topology, n, now, known)
                    for t, known in zip(self.tables, self.cuts, strict=True)
                    for n in t.nbytes
                ]
            )

        def model(logs: Floats) -> tuple[Floats, Callable[[], Floats]]:
            here_s = simulated_s(logs)

            def slopes() -> Floats:
                columns = []
                for at, name in enumerate(self.names):
                    if name == "launch_s":  # before all else, so it only adds
                        columns.append(np.exp(logs[at]) / here_s)
                        continue
                    apart = -APART if logs[at] + APART > self.high[at] else APART
                    there = logs.copy()
                    there[at] += apart
                    columns.append((np.log(simulated_s(there)) - np.log(here_s)) / apart)
                return np.concatenate([np.stack(columns, axis=1), np.diag(self.prior * self.sure)])

            return np.concatenate([np.log(here_s / self.measured_s), self.prior * self.sure * (logs - usual)]), slopes

        start, usual = (np.log([getattr(c, name) for name in self.names]) for c in (constants, reference))
        found = minimum(model, start, self.low, self.high, steps)
        return of(found.parameters), found
