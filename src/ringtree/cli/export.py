"""A schedule as a file of another runtime: `ringtree export`."""

from __future__ import annotations

import argparse
from pathlib import Path

from ringtree.cli.arguments import subject
from ringtree.cli.arguments.destination import check_destinations
from ringtree.files.replacing import replacing
from ringtree.formats import WRITERS, parse, text_of
from ringtree.ir.lower import lower
from ringtree.ir.schedule import Schedule
from ringtree.verify import prove, prove_programs


def run(args: argparse.Namespace) -> int:
    """Proves what the file will be read as, and writes it; prints what it has. Returns 0."""
    key = args.format or format_of(args.file)
    schedule = subject.from_file(args).schedule if subject.is_file(args.what) else subject.schedule(args)
    check_destinations(args, args.file)
    print(write_schedule(schedule, args.file, key, args.gpus_per_node))
    return 0


def write_schedule(schedule: Schedule, path: Path, key: str, gpus_per_node: int | None = None) -> str:
    """Proves what the file will be read as, and writes it. Returns a line of what it has. `key`: the format."""
    prove(schedule)
    data = text_of(schedule, key, gpus_per_node).encode()
    found = parse(path, data)
    prove(found.schedule)
    proof = prove_programs(found.programs or lower(found.schedule), alike=True)
    with replacing(path) as file:
        file.write(data)
    return f"{path}: {proof}"


def format_of(path: Path) -> str:
    """The format that the file's suffix names. ValueError: where it names none."""
    suffix = path.suffix.lower()
    for key, writer in WRITERS.items():
        if writer.suffix == suffix:
            return key
    expected = ", ".join(f"{writer.suffix} ({key})" for key, writer in WRITERS.items())
    raise ValueError(f"{suffix or 'no suffix'} names no format: expected {expected}, or --format")
