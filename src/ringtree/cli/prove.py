"""Proofs of algorithms and of files: `ringtree prove`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial

from ringtree.algorithms import NAMES, find
from ringtree.bench.machine import usable_cores
from ringtree.cli.arguments import subject
from ringtree.cli.arguments.subject import Options
from ringtree.cli.options.schedules.prove import MOST_TRANSFERS
from ringtree.cli.options.subject import span
from ringtree.cli.terminal import progress
from ringtree.formats.call_facts import lacks_room
from ringtree.ir.collective import collective
from ringtree.ir.lower import lower
from ringtree.verify import Report, prove, prove_many, prove_programs

COLUMNS = "{:<19} {:<15} {:<{width}} {:>10} {:>13} {:>10} {:>6}"
SHOWN_FAILURES = 20
LONG_TRANSFERS = 500_000
"""Transfers of a schedule whose proof takes half a minute or more, and gigabytes from ten times as many on."""


def run(args: argparse.Namespace) -> int:
    """Prints a line per proof. Returns 1 where a schedule is refused, else 0."""
    everything = args.what == "all"
    if args.collective:
        collective(args.collective)
    if not everything and subject.is_file(args.what):
        return _prove_file(args)
    if not everything and args.collective:
        find(args.what).function(args.collective)  # refuses what it does not serve
    for option, number in (("--jobs", args.jobs), ("--most-transfers", args.most_transfers)):
        if number is not None and number < 1:
            raise ValueError(f"{option} {number}: expected at least 1")
    ranks = args.ranks or (list(range(1, 65)) if everything else [8])
    pairs = list(subject.every(NAMES if everything else [args.what], args.collective))
    started = time.monotonic()
    most = args.most_transfers or (MOST_TRANSFERS if everything else None)
    if everything and args.option:
        raise ValueError("all: options belong to a single algorithm; leave --option out")
    reports = _prove(pairs, ranks, args.option, args.jobs, most)
    return _close(reports, time.monotonic() - started)


def _prove(
    pairs: Sequence[tuple[str, str]], ranks: Sequence[int], options: Options, jobs: int | None, most: int | None
) -> list[Report]:
    """Proves every pair at every number of ranks and at the roots worth proving; a line a pair, as it is done."""
    ranges = span(ranks)
    row = partial(COLUMNS.format, width=max(len(ranges), 7))
    print(row("algorithm", "collective", "ranks", "schedules", "transfers", "programs", "slots"))
    reports = []
    with progress("proving", total=len(pairs)) as bar:
        for algorithm, collective in pairs:
            cases = [
                (
                    f"n={n}" + ("" if root is None else f" root={root}"),
                    partial(subject.built, algorithm, collective, n, root, options),
                )
                for n in reversed(ranks)  # the largest first, so that all processes end together
                for root in subject.roots(collective, n)
            ]
            name = find(algorithm).name
            bar.note(f"{name} {collective}")
            begun = partial(_announce, f"{name} {collective}")
            report = prove_many(cases, processes=jobs or usable_cores(), begun=begun, most_transfers=most)
            reports.append(report)
            counted = (f"{x:,}" for x in (report.schedules, report.transfers, report.programs, report.slots))
            bar.print(row(name, collective, ranges, *counted))
            bar.advance()
            for failure in report.failures[:SHOWN_FAILURES]:
                bar.print(f"  {failure}")
            for case in report.left_out:
                bar.print(f"  left out {case}")
    return reports


def _announce(pair: str, case: str, transfers: int) -> None:
    """Says that a long proof begins, where no terminal has a bar that is there meanwhile."""
    if transfers >= LONG_TRANSFERS and not sys.stderr.isatty():
        print(f"ringtree prove: {pair} {case}: {transfers:,} transfers, which may take minutes", file=sys.stderr)


def _close(reports: Sequence[Report], seconds: float) -> int:
    schedules, transfers, programs = (
        sum(getattr(r, what) for r in reports) for what in ("schedules", "transfers", "programs")
    )
    refused = sum(len(r.failures) for r in reports)
    left_out = sum(len(r.left_out) for r in reports)
    print(
        f"proved {schedules:,} schedule{'s' * (schedules != 1)} with {transfers:,} transfers, and the {programs:,} "
        f"programs of their ranks, in {seconds:.1f} s (slots: the fewest without deadlock)"
    )
    if left_out:
        print(f"left out {left_out} with too many transfers, listed above (--most-transfers sets the limit)")
    if refused:
        print(f"ringtree prove: {refused} refused, listed above", file=sys.stderr)
    return 1 if refused else 0


def _prove_file(args: argparse.Namespace) -> int:
    found = subject.loaded(args.what)
    schedule, facts = found.schedule, found.facts
    if args.collective not in (None, schedule.collective):
        raise ValueError(f"{args.what} is a schedule for {schedule.collective}, not for {args.collective}")
    if args.option:
        raise ValueError(f"{args.what} is a file and has no options; leave --option out")
    if args.ranks and args.ranks != [schedule.ranks]:
        raise ValueError(f"{args.what} has {schedule.ranks} ranks; leave -n/--ranks out")
    print(prove(schedule))
    if schedule.switches:
        number = f"{schedule.switches} switch{'es' * (schedule.switches != 1)}"
        print(f"no programs: the schedule has {number}, and programs are written for ranks only")
        return 0
    proof = prove_programs(found.programs or lower(schedule), alike=True)  # files deal in equal blocks
    print(proof)
    print("; ".join(f"{name} {value}" for name, value in facts.items() if name != "name"))
    if lacking := lacks_room(facts, proof.slots):
        print(f"not for MSCCL's runtimes as it is: {lacking}")
    for reason in filter(None, (proof.early, proof.late)):
        twice = "; its two halves of scratch take turns" if facts.get("use_double_scratch_buffer") else ""
        print(f"one call must not run into the next: {reason}{twice}")
    return 0
