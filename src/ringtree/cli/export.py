"""A schedule as a file of another runtime: `ringtree export`."""

from __future__ import annotations

import argparse

from ringtree.cli.arguments import subject
from ringtree.cli.arguments.destination import check_destinations
from ringtree.files.replacing import replacing
from ringtree.formats import WRITERS, parse, text_of
from ringtree.ir.lower import lower
from ringtree.verify import prove, prove_programs


def run(args: argparse.Namespace) -> int:
    """Proves what the file will be read as, and writes it; prints what it has. Returns 0."""
    key = args.format or _key(args.file.suffix)
    schedule = subject.from_file(args).schedule if subject.is_file(args.what) else subject.schedule(args)
    check_destinations(args, args.file)
    prove(schedule)
    data = text_of(schedule, key, args.gpus_per_node).encode()
    found = parse(args.file, data)
    prove(found.schedule)
    proof = prove_programs(found.programs or lower(found.schedule), alike=True)
    with replacing(args.file) as file:
        file.write(data)
    print(f"{args.file}: {proof}")
    return 0


def _key(suffix: str) -> str:
    for key, writer in WRITERS.items():
        if writer.suffix == suffix:
            return key
    expected = ", ".join(f"{writer.suffix} ({key})" for key, writer in WRITERS.items())
    raise ValueError(f"{suffix or 'no suffix'} names no format: expected {expected}, or --format")
