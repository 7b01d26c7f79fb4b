"""Programs of thread blocks that a command line names, their tables of measured times, and their place."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ringtree.cli.arguments import subject
from ringtree.cli.arguments.topology import topology
from ringtree.formats import Imported, load
from ringtree.ir.lower import lower
from ringtree.ir.program import Program
from ringtree.ir.schedule import Schedule
from ringtree.nccl.files import nccl_tests
from ringtree.nccl.files.deduced import off_algbw
from ringtree.simulate.device.channels import in_channels
from ringtree.simulate.device.fit import MeasuredTable

MOST_CHANNELS, MOST_SIZES = 1024, 200
DEFAULT_PROTOCOL = "Simple"
"""The protocol of programs that name none."""
ON_LINKS = ("cut", "in_place", "hosts", "rate", "latency", "share_cores", "others", "slots")
"""Options of plays on described links alone."""
WRITTEN = ("goal", "chakra")
"""Options that write what is played on links for other simulators."""
OF_EVENTS = ("trace", "html", "straggler", "link", "jitter", "seed")
"""Options of plays whose events are shown."""


@dataclass(frozen=True, slots=True)
class DeviceProgram:
    """A program of thread blocks: its schedule, every rank's instructions, and its protocol. `note`: as a Case's."""

    name: str
    schedule: Schedule
    programs: Sequence[Program]
    protocol: str
    note: str = ""


def refuse_options(args: argparse.Namespace, to: str, options: Sequence[str]) -> None:
    """Refuses options that do not apply `to` what is done. ValueError, in one line."""
    for option in options:
        if subject.is_given(getattr(args, option)) and getattr(args, option) != 0.0:
            raise ValueError(f"{subject.option_name(option)} does not apply to {to}; leave it out")


def subject_program(args: argparse.Namespace, place: str | None = None) -> DeviceProgram:
    """The program that the first argument names, on the topology `place`. An algorithm's has a thread block for each
    channel."""
    if subject.is_file(args.what):
        return _read(args.what, subject.from_file(args, "channels"))
    channels = 1 if args.channels is None else args.channels
    if not 1 <= channels <= MOST_CHANNELS:
        raise ValueError(f"--channels {channels}: expected 1 to {MOST_CHANNELS}")
    host_of = topology(place, ranks := subject.ranks_of(args)).hosts[:ranks].tolist() if place else ()
    schedule = subject.schedule(args, host_of)
    note = subject.group_in_words(args, host_of)
    return DeviceProgram(args.what, schedule, in_channels(lower(schedule), channels), DEFAULT_PROTOCOL, note)


def _read(path: str, found: Imported) -> DeviceProgram:
    facts = found.facts
    protocol = str(facts.get("proto") or facts.get("protocol") or DEFAULT_PROTOCOL)
    return DeviceProgram(path, found.schedule, found.programs or lower(found.schedule), protocol)


def measured(program: DeviceProgram, path: str) -> MeasuredTable:
    """The table in a file; one that names no collective is of the program's. ValueError, in one line: if it is none,
    or one of another collective or number of ranks."""
    schedule = program.schedule
    log = nccl_tests.read(Path(path), schedule.collective)
    if log.collective != schedule.collective or log.ranks not in (0, schedule.ranks):
        table = f"{log.collective} over {log.ranks or 'an unknown number of'} ranks"
        raise ValueError(
            f"{path}: is of {table}; expected {schedule.collective} over {schedule.ranks}, as {program.name} is"
        )
    if wrong := next((row for row in log.rows if row.wrong), None):
        raise ValueError(
            f"{path}, line {wrong.wrong_line}: {wrong.wrong} wrong elements; expected times of right results"
        )
    rows = [row for row in log.rows if row.nbytes >= schedule.chunks]
    if len(rows) > MOST_SIZES:
        raise ValueError(f"{path}: {len(rows):,} sizes; expected at most {MOST_SIZES}, each of which is simulated")
    if not rows:
        raise ValueError(f"{path}: no size of at least {schedule.chunks} bytes, the chunks of {program.name}")
    side = -1 if program.programs[0].aliasable else 0  # in place, where there are two times
    times_s = tuple(row.times_s[side] for row in rows)
    nbytes, doubtful = tuple(row.nbytes for row in rows), len(off_algbw(rows))
    return MeasuredTable(path, program.programs, nbytes, times_s, log.inferred, doubtful)


def pair(text: str, own: DeviceProgram) -> tuple[DeviceProgram, MeasuredTable]:
    """The program and table of `TABLE` (of the command's `own` program) or `PROGRAM=TABLE`."""
    program, equals, table = text.partition("=")
    if equals and not Path(text).exists():
        if not program or not table:
            raise ValueError(f"--fit {text}: expected TABLE, or PROGRAM=TABLE with both files named")
        other = _read(program, load(program))
        return other, measured(other, table)
    return own, measured(own, text)
