"""`ringtree simulate --constants`: thread blocks on a device of fitted constants, alone or beside measured times."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np

from ringtree.cli.arguments.byte_sizes import in_blocks, listed_sizes
from ringtree.cli.arguments.conditions import conditions
from ringtree.cli.arguments.destination import check_destinations, write_page
from ringtree.cli.arguments.topology import topology
from ringtree.cli.options.files import MEASURED
from ringtree.cli.simulate.device_programs import (
    OF_EVENTS,
    ON_LINKS,
    WRITTEN,
    DeviceProgram,
    measured,
    refuse_options,
    subject_program,
)
from ringtree.cli.simulate.reporting import Case, described, detail_lines, head_lines, print_rounded, print_table
from ringtree.draw.text.tables import aligned
from ringtree.formats.chrome import write
from ringtree.pages.schedule_page import schedule_page
from ringtree.simulate import device
from ringtree.simulate.device.constants import DeviceConstants, load
from ringtree.simulate.device.play import PlayedCuts, pieces_of
from ringtree.topology import Topology

MOST_SHOWN = 512
"""The most pieces whose events are shown."""


def run(args: argparse.Namespace) -> int:
    """Prints simulated times by the constants. Returns the exit code."""
    refuse_options(args, "thread blocks on a device", (*ON_LINKS, *WRITTEN))
    content = load(args.constants)
    place = args.topology or content.topology
    if not place:
        raise ValueError(f"{args.constants} records no topology: expected --topology, such as mi300x8")
    check_destinations(args, args.trace, args.html, others=[place.removeprefix(MEASURED)])
    program = subject_program(args, place)
    constants = content.of(program.protocol, str(args.constants))
    links = topology(place, program.schedule.ranks)
    if args.measured:
        refuse_options(args, "times beside measured ones", (*OF_EVENTS, "bytes"))
        _beside(args, program, links, constants)
        return 0
    sizes = listed_sizes(args.bytes, program.schedule.collective)
    sizes, rounded = in_blocks(sizes, program.schedule.collective, program.schedule.ranks)
    cases = [Case(program.schedule, program.programs, nbytes, program.note) for nbytes in sizes]
    text = f"{described(args, links)}; thread blocks of protocol {program.protocol} by {args.constants}"
    if len(cases) > 1:
        refuse_options(args, "times alone, of several sizes", OF_EVENTS)
        known = PlayedCuts(program.programs)
        print_rounded(rounded)
        print_table(cases, text, lambda case: device.seconds(program.programs, links, case.nbytes, constants, known))
        return 0
    print_rounded(rounded)
    _one(args, cases[0], program, links, constants, text)
    return 0


def _one(
    args: argparse.Namespace,
    case: Case,
    program: DeviceProgram,
    links: Topology,
    constants: DeviceConstants,
    place: str,
) -> None:
    """Prints one simulation, and writes its trace and page."""
    pieces = pieces_of(program.programs, case.nbytes, constants.piece_nbytes)
    if pieces > MOST_SHOWN:
        refuse_options(args, f"times alone, of {pieces:,} pieces", OF_EVENTS)
        for line in head_lines(case, place, device.seconds(program.programs, links, case.nbytes, constants)):
            print(line)
        print(f"\nits {pieces:,} pieces are alike, and more than the {MOST_SHOWN} whose events are shown")
        return
    begin_s = time.perf_counter()
    found = device.play(program.programs, links, case.nbytes, constants, conditions=conditions(args, links))
    wall_s = time.perf_counter() - begin_s
    if args.trace:
        write(found.trace, args.trace)
    details = detail_lines(found, wall_s, constants.launch_s)
    for line in (*head_lines(case, place, found.time_s), *details):
        print(line)
    if args.trace:
        print(f"{args.trace}: `ringtree show` draws it, and ui.perfetto.dev opens it")
    if args.html:
        write_page(args.html, schedule_page(case.schedule, links, [found.trace]))


def _beside(args: argparse.Namespace, program: DeviceProgram, links: Topology, constants: DeviceConstants) -> None:
    """Prints simulated times beside a table's."""
    table = measured(program, args.measured)
    known = PlayedCuts(program.programs)
    rows: list[Sequence[str]] = [("bytes", "measured us", "simulated us", "error")]
    errors = []
    for nbytes, measured_s in zip(table.nbytes, table.time_s, strict=True):
        simulated_s = device.seconds(program.programs, links, nbytes, constants, known)
        errors.append(simulated_s / measured_s - 1)
        rows.append((str(nbytes), f"{measured_s * 1e6:.2f}", f"{simulated_s * 1e6:.2f}", f"{errors[-1]:+.1%}"))
    print(f"# {program.schedule.name} {program.schedule.collective} over {program.schedule.ranks} ranks, protocol "
          f"{program.protocol}, by {args.constants} beside {args.measured}")  # fmt: skip
    for note in table.notes:
        print(f"# {note}")
    for line in aligned(rows):
        print(line)
    print(f"# median error {np.median(np.abs(errors)):.1%}, largest {max(errors, key=abs):+.1%}")
