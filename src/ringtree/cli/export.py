"""A schedule as a file of another runtime: `ringtree export`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from ringtree.cli.arguments import subject
from ringtree.cli.arguments.destination import check_destinations
from ringtree.files.replacing import replacing
from ringtree.formats import WRITERS, Imported, NotExpressible, parse, text_of
from ringtree.formats.call_facts import lacks_room, not_kept
from ringtree.ir.lower import lower
from ringtree.ir.schedule import Schedule
from ringtree.verify import prove, prove_programs


def run(args: argparse.Namespace) -> int:
    """Proves what the file will be read as, and writes it; prints what it has. Returns 0."""
    key = args.format or format_of(args.file)
    found = subject.from_file(args) if subject.is_file(args.what) else Imported(subject.schedule(args))
    check_destinations(args, args.file)
    print(write_schedule(found.schedule, args.file, key, args.gpus_per_node, found.facts))
    return 0


def write_schedule(
    schedule: Schedule,
    path: Path,
    key: str,
    gpus_per_node: int | None = None,
    facts: Mapping[str, str | int] | None = None,
) -> str:
    """Proves what the file will be read as, and writes it. Returns lines of what it has, and of what it does not keep.
    `key`: the format; `facts`: of the file that the schedule is from. NotExpressible: where its runtimes' connections
    have no room for its messages."""
    prove(schedule)
    data = text_of(schedule, key, gpus_per_node, facts).encode()
    found = parse(path, data)
    prove(found.schedule)
    proof = prove_programs(found.programs or lower(found.schedule), alike=True)
    if lacking := lacks_room(found.facts, proof.slots):
        raise NotExpressible(f"{schedule.name}: {lacking}; expected an MSCCL++ plan (.json), which needs no such room")
    with replacing(path) as file:
        file.write(data)
    lost = not_kept(facts or {}, found.facts)
    return f"{path}: {proof}" + (f"\n{path}: not kept: {lost}" if lost else "")


def format_of(path: Path) -> str:
    """The format that the file's suffix names. ValueError: where it names none."""
    suffix = path.suffix.lower()
    for key, writer in WRITERS.items():
        if writer.suffix == suffix:
            return key
    expected = ", ".join(f"{writer.suffix} ({key})" for key, writer in WRITERS.items())
    raise ValueError(f"{suffix or 'no suffix'} names no format: expected {expected}, or --format")
