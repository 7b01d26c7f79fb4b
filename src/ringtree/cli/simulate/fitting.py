"""`ringtree simulate --fit`: a device's constants from tables of nccl-tests, and their errors."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ringtree.cli.arguments.destination import check_destinations
from ringtree.cli.arguments.topology import machine_of, topology
from ringtree.cli.simulate.device_programs import OF_EVENTS, ON_LINKS, WRITTEN, pair, refuse_options, subject_program
from ringtree.cli.terminal import progress
from ringtree.draw.text.tables import aligned
from ringtree.files.replacing import replacing
from ringtree.ir.units import count, duration, size
from ringtree.machines.parts import GPUS
from ringtree.simulate.device.constants import ConstantsFile, DeviceConstants, dumps
from ringtree.simulate.device.fit import BOUNDS, UNCUT, DeviceFit, MeasuredTable, fit, fitted_names, stages

LARGE_ERROR = 0.3
"""The median error of times from which a fit is warned of."""
AT_END = 0.99
"""A rate above this share of the most that is looked for is at the end of the search."""
LARGEST_SHOWN = 10.0
"""The largest error that is shown as a number: beyond it only the order of magnitude is wrong."""
UNDETERMINED = 1.0
"""The relative standard error from which a constant counts as not determined."""


def run(args: argparse.Namespace) -> int:
    """Fits the constants of each protocol, prints them and their errors, and writes them. Returns the exit code."""
    refuse_options(args, "a fit", (*ON_LINKS, *OF_EVENTS, *WRITTEN, "bytes", "constants", "measured"))
    if args.topology is None:
        raise ValueError("--fit expects --topology, the links between the devices, such as mi300x8 or dgx-h100")
    own = subject_program(args, args.topology)
    pairs = [pair(text, own) for text in args.fit]
    check_destinations(args, args.out)
    place, memory_Bps = topology(args.topology, own.schedule.ranks), _memory_Bps(args.topology)
    tables: dict[str, list[MeasuredTable]] = {}
    for program, table in pairs:
        if 2 * table.doubtful > len(table.nbytes):
            raise ValueError(
                f"--fit {table.name}: time and algbw contradict each other in {table.doubtful} of "
                f"{count(len(table.nbytes), 'size')}; expected times of which algbw is the bytes over the time"
            )
        for note in table.notes:
            print(f"# {table.name}: {note}")
        tables.setdefault(program.protocol, []).append(table)
    for protocol, of in tables.items():
        if (sizes := sum(len(t.nbytes) for t in of)) < (least := len(fitted_names(of))):
            raise ValueError(
                f"--fit {of[0].name}: {count(sizes, 'size')} of {protocol}, and {least} constants are fitted; expected "
                f"times of {least} sizes at least"
            )
    found: dict[str, DeviceConstants] = {}
    with progress("fitting", sum(stages(of) for of in tables.values())) as bar:

        def report(text: str) -> None:
            bar.note(text)
            bar.advance()

        for protocol, of in tables.items():
            fitted = fit(of, place, report)
            found[protocol] = fitted.constants
            for line in fitted_lines(protocol, fitted):
                bar.print(line)
            if warning := doubts(fitted, memory_Bps):
                bar.print(f"warning: {protocol}: {warning}")
    if args.out:
        with replacing(args.out) as file:
            file.write(dumps(ConstantsFile(found, args.topology)).encode())
        print(f"{args.out}: `ringtree simulate PROGRAM --constants {args.out} --bytes B` plays by it")
    return 0


def fitted_lines(protocol: str, found: DeviceFit) -> Iterator[str]:
    """The report of a protocol's fit."""
    sizes = sum(len(t.table.nbytes) for t in found.tables)
    yield f"# {protocol}: {count(sizes, 'time')} of {count(len(found.tables), 'table')}; median errors of times"
    rows = [("table", "sizes", "fitted", "without each size", "without the table")]
    for t in found.tables:
        apart = "-" if t.without_table is None else _median(t.without_table)
        rows.append(
            (Path(t.table.name).name, str(len(t.table.nbytes)), _median(t.fitted), _median(t.without_size), apart)
        )
    yield from (f"# {line}" for line in aligned(rows))
    yield from _constants(found)
    if len(found.tables) == 1:
        yield "note: one table does not separate block_Bps, pieces and slices; add one of another number of channels"


def _memory_Bps(place: str) -> float | None:
    """The most that the memory of a machine's GPUs carries; None for a shape, and for GPUs that no table has."""
    machine = machine_of(place)
    if machine is None:
        return None
    parts = (GPUS.get(machine.devices[gpu].model) for gpu in machine.gpus)
    return max((part.memory_Bps for part in parts if part), default=None)


def doubts(found: DeviceFit, memory_Bps: float | None = None) -> str:
    """Why the constants may be of another program than the measured one, in a line; "" where nothing speaks against
    them. `memory_Bps`: what a GPU's memory carries."""
    off = float(np.median(np.abs(np.concatenate([t.fitted for t in found.tables]))))
    why = []
    for name in (name for name in found.errors if name.endswith("_Bps")):
        rate_Bps = getattr(found.constants, name)
        if memory_Bps is not None and rate_Bps > memory_Bps:
            why.append(f"{name} of {rate_Bps / 1e9:,.0f} GB/s is above the GPU's memory, {memory_Bps / 1e9:,.0f} GB/s")
        elif rate_Bps > AT_END * BOUNDS[name][1]:
            why.append(f"{name} of {rate_Bps / 1e9:,.0f} GB/s is the most that is looked for")
    if off > LARGE_ERROR:
        why.append("the times do not fit")
    if not why:
        return ""
    return f"{'; '.join(why)} (median error {off:.0%}): are the program and the topology those that were timed?"


def _median(errors: NDArray[np.float64]) -> str:
    off = float(np.median(np.abs(errors)))
    return f"{off:.1%}" if off <= LARGEST_SHOWN else f">{LARGEST_SHOWN:.0%}"


def _constants(found: DeviceFit) -> Iterator[str]:
    c = found.constants
    shown = {
        "launch_s": duration(c.launch_s), "step_s": duration(c.step_s), "block_Bps": f"{c.block_Bps / 1e9:.3g} GB/s",
        "link_share": f"{c.link_share:.3g}", "reduce_Bps": f"{c.reduce_Bps / 1e9:.3g} GB/s",
    }  # fmt: skip
    rows = []
    for name, error in found.errors.items():
        weak = error >= UNDETERMINED
        rows.append((name, shown[name], "not determined by these tables" if weak else f"standard error {error:.1%}"))
    yield from (f"{name:<14}{value:>12}  {note}" for name, value, note in rows)
    piece = "unlimited" if c.piece_nbytes >= UNCUT else size(c.piece_nbytes)
    yield f"{'piece_nbytes':<14}{piece:>12}  the best of powers of two"
    yield f"{'slices':<14}{c.slices:>12}"
    yield f"{'slots':<14}{c.slots:>12}"
    if "reduce_Bps" not in found.errors:
        yield f"{'reduce_Bps':<14}{'unlimited':>12}  not fitted: no table of a reduction"
