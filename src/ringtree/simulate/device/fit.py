"""A device's constants from measured times of its programs, by least squares of the logarithms of times.

What tables of times cannot show stays as it was: a link's share where no link was busy, the rate of reductions where
none was measured. Pieces, slices and slots are whole numbers, found by trying powers of two, one constant after the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.program import Kind, Program
from ringtree.ir.units import size
from ringtree.simulate.device.constants import RANGES, DeviceConstants
from ringtree.simulate.device.least_squares import Minimum, minimum
from ringtree.simulate.device.play import Cuts, seconds
from ringtree.simulate.simulation import Job
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
QUICK_STEPS, STEPS = 3, 20
"""Steps of least squares, for each try of a whole number and at the end."""
PIECES = tuple(1 << k for k in range(12, 24))
UNCUT = int(RANGES["piece_nbytes"][1])
SLICES, SLOTS = (1, 2, 4, 8), (1, 2, 8)
"""The whole numbers that are tried."""
START = DeviceConstants(launch_s=1e-5, step_s=1e-6, block_Bps=1e10, link_share=0.9, slices=2)


@dataclass(frozen=True, slots=True)
class MeasuredTable:
    """Measured times of programs, over sizes of the whole vector, at least one."""

    name: str
    programs: Sequence[Program]
    nbytes: tuple[int, ...]
    time_s: tuple[float, ...]


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
    problem = _Problem(tables, topology)
    constants = problem.scaled(START)
    for name, values in _tries(tables):
        tried = []
        for value in values:
            changed, found = problem.solved(replace(constants, **{name: value}), QUICK_STEPS)
            tried.append((found.cost, len(tried), changed))
            report(f"{name} {value:,}: {_typical(found.residuals):.0%} off")
        constants = min(tried)[2]
    constants, best = problem.solved(constants, STEPS)
    report(f"all constants: {_typical(best.residuals):.0%} off")
    errors = []
    ends = np.cumsum([len(t.nbytes) for t in tables])[:-1]
    for number, (table, fitted, alone) in enumerate(
        zip(tables, np.split(best.residuals, ends), np.split(best.left_out(), ends), strict=True)
    ):
        apart = None
        if len(tables) > 1:
            others = _Problem([*tables[:number], *tables[number + 1 :]], topology)
            apart = np.expm1(log_errors(table, topology, others.solved(constants, STEPS)[0]))
            report(f"without {table.name}")
        simulated_s = np.array(table.time_s) * np.exp(fitted)
        errors.append(TableErrors(table, simulated_s, np.expm1(fitted), np.expm1(alone), apart))
    uncertain = dict(zip(problem.names, np.expm1(np.minimum(best.errors(), 700)).tolist(), strict=True))
    return DeviceFit(constants, uncertain, tuple(errors))


def stages(tables: Sequence[MeasuredTable]) -> int:
    """The number of reports of a fit."""
    return sum(len(values) for _, values in _tries(tables)) + 1 + (len(tables) if len(tables) > 1 else 0)


def log_errors(table: MeasuredTable, topology: Topology, constants: DeviceConstants) -> Floats:
    """The logarithm of simulated over measured times, [sizes]."""
    known = Cuts(table.programs)
    simulated_s = [seconds(table.programs, topology, n, constants, known) for n in table.nbytes]
    return np.log(simulated_s) - np.log(table.time_s)


def _typical(residuals: Floats) -> float:
    """The median of relative errors."""
    return float(np.median(np.abs(np.expm1(residuals))))


def _tries(tables: Sequence[MeasuredTable]) -> Iterator[tuple[str, Sequence[int]]]:
    """The whole numbers and their values, in the order in which they are tried."""
    longest = max(int(Job(t.programs, max(t.nbytes)).chunk_nbytes.max(initial=0)) for t in tables)
    pieces = (*(p for p in PIECES if p < longest), UNCUT)
    yield "piece_nbytes", pieces
    yield "slices", SLICES
    yield "piece_nbytes", pieces
    yield "slots", SLOTS


class _Problem:
    """Tables, and the logarithms of the constants that are fitted to them."""

    def __init__(self, tables: Sequence[MeasuredTable], topology: Topology) -> None:
        self.tables, self.topology = tables, topology
        self.measured_s = np.concatenate([t.time_s for t in tables])
        reduces = any(i.kind == Kind.REDUCE for t in tables for p in t.programs for code in p.threads for i in code)
        self.names = [name for name in BOUNDS if reduces or name != "reduce_Bps"]
        self.low, self.high = np.log(np.array([BOUNDS[name] for name in self.names])).T

    def scaled(self, start: DeviceConstants) -> DeviceConstants:
        """Constants from which the search begins: the times of `start`, scaled to the shortest and longest measured."""
        largest = int(np.argmax(self.measured_s))
        sizes = [(t, n) for t in self.tables for n in t.nbytes]
        table, nbytes = sizes[largest]
        ratio = float(self.measured_s[largest]) / seconds(table.programs, self.topology, nbytes, start)
        block_Bps = float(np.clip(start.block_Bps / ratio, *BOUNDS["block_Bps"]))
        shortest_s = float(self.measured_s.min())
        return replace(start, launch_s=shortest_s / 2, step_s=shortest_s / 50, block_Bps=block_Bps, reduce_Bps=block_Bps)

    def solved(self, constants: DeviceConstants, steps: int) -> tuple[DeviceConstants, Minimum]:
        """The best constants near these, whose whole numbers they keep."""
        cuts = [Cuts(t.programs) for t in self.tables]

        def of(logs: Floats) -> DeviceConstants:
            return replace(constants, **dict(zip(self.names, np.exp(logs).tolist(), strict=True)))

        def simulated_s(logs: Floats) -> Floats:
            now = of(logs)
            return np.array(
                [
                    seconds(t.programs, self.topology, n, now, known)
                    for t, known in zip(self.tables, cuts, strict=True)
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
                return np.stack(columns, axis=1)

            return np.log(here_s / self.measured_s), slopes

        start = np.log([getattr(constants, name) for name in self.names])
        found = minimum(model, start, self.low, self.high, steps)
        return of(found.parameters), found
