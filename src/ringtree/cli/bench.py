"""Tables of a collective's times, measured here: `ringtree bench`."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing, nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ringtree.algorithms import exists
from ringtree.bench import session
from ringtree.bench.machine import describe
from ringtree.bench.measure import Effort
from ringtree.bench.predicted import predicted
from ringtree.bench.record import BenchRow, write
from ringtree.bench.sweep import SweepCase, beside, plan
from ringtree.cli.arguments.byte_sizes import parse_bytes, sizes
from ringtree.cli.arguments.destination import check_destinations
from ringtree.cli.options.hosts import ON_HOSTS, are_given
from ringtree.cli.terminal import SILENT, Bar, progress
from ringtree.draw.text.tables import BandwidthCells, nccl_footer, nccl_header, nccl_row
from ringtree.formats import chrome, load
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.lower import lower
from ringtree.ir.trace import Trace
from ringtree.ir.units import count
from ringtree.runtime.bootstrap.environment import detect
from ringtree.runtime.world import init
from ringtree.verify import prove, prove_programs

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator


MOST_CALLS = 1_000_000
"""The most calls of one case: the times of all are kept."""


class MeasuredCases(NamedTuple):
    """The rows of all tables so far, and the traces where some are asked for."""

    rows: list[BenchRow]
    traces: list[Trace] | None


def run(args: argparse.Namespace) -> int:
    """Times the collective and prints nccl-tests' table. Returns 1 where a result was wrong, else 0.

    A process that a launcher started as one of several is a rank of the only table, and rank 0 prints."""
    step = None if args.stepbytes is None else parse_bytes(args.stepbytes)
    factor = 8.0 if args.stepfactor is None and step is None else args.stepfactor
    nbytes = sizes(parse_bytes(args.minbytes), parse_bytes(args.maxbytes), factor=factor, step=step)
    effort, world = _effort(args), detect()
    launched = world.size > 1
    if launched and (args.ranks or args.threads or args.hosts):
        option = "-t/--threads" if args.threads else "-n/--ranks" if args.ranks else "--hosts"
        raise ValueError(f"{option} in a rank of the {world.size} that {world.launcher} started; leave it out")
    on_hosts = import_module(ON_HOSTS) if are_given(args) else None
    if on_hosts and args.threads:
        raise ValueError("-t/--threads with --hosts, whose ranks are processes; leave it out")
    ranks = [world.size] if launched else [on_hosts.ranks(args)] if on_hosts else args.ranks or [2]
    if args.schedule:
        tables = _of_file(args, ranks if launched or on_hosts or args.ranks else None, nbytes)
    elif args.collective is None:
        raise ValueError(f"required: COLLECTIVE, one of {', '.join(COLLECTIVES)}, or --schedule FILE")
    else:
        tables = plan(args.collective, ranks, nbytes, args.dtype, args.op, args.root or 0, args.algorithm)
    if on_hosts:
        check_destinations(args, args.json, args.trace)
        code: int = on_hosts.run_in_slots(args, ranks[0])
        return code
    if not launched:
        return _tables(args, tables, effort, None)
    with init() as comm:
        return _tables(args, tables, effort, comm)


def _of_file(args: argparse.Namespace, ranks: list[int] | None, nbytes: list[int]) -> list[list[SweepCase]]:
    """The table of the schedule in a file, proved here. ValueError: if it cannot be proved, or is not of the
    collective, the ranks and the root that the call names."""
    schedule = load(args.schedule).schedule
    name, n = str(args.schedule), schedule.ranks
    if ranks not in (None, [n]):
        asked = ",".join(map(str, ranks or []))
        raise ValueError(f"{name} is for {n} rank{'s' * (n > 1)}, and there are to be {asked}: expected -n {n}")
    if args.collective not in (None, schedule.collective):
        raise ValueError(f"{name} is for {schedule.collective}, not for {args.collective}")
    if args.root not in (None, schedule.root):
        its = "no root" if schedule.root is None else f"root {schedule.root}"
        raise ValueError(f"{name} has {its}; leave -r {args.root} out")
    prove(schedule)
    prove_programs(lower(schedule), alike=True)
    args.collective = schedule.collective
    called = args.schedule.name if not exists(args.schedule.name) else f"./{args.schedule.name}"  # of no algorithm
    return beside(replace(schedule, name=called), nbytes, args.dtype, args.op, args.algorithm)


def _tables(args: argparse.Namespace, tables: list[list[SweepCase]], effort: Effort, comm: Communicator | None) -> int:
    """Measures on ranks started here, or on those of `comm`; of these rank 0 alone prints and writes files."""
    prints = comm is None or comm.rank == 0
    if prints:
        check_destinations(args, args.json, args.trace)
    for table in tables:
        session.check_room(table, comm)
    measured = MeasuredCases([], [] if args.trace else None)
    total = sum(map(len, tables))
    try:
        with progress(args.collective, total=total) if prints else nullcontext(SILENT) as bar:
            for table in tables:
                _table(args, table, effort, bar, measured, comm)
    except BaseException:
        if prints and (args.json or args.trace):
            files = _write(args, tables, effort, comm, measured)
            kept = f"written to {' and '.join(map(str, files))}" if files else "nothing is written"
            print(f"ringtree bench: cut off after {len(measured.rows)} of {total} cases: {kept}", file=sys.stderr)
        raise
    wrong = sum((r["wrong"] or 0) + (r["in_place_wrong"] or 0) for r in measured.rows)
    if prints:
        _write(args, tables, effort, comm, measured)
        if wrong:
            print(f"ringtree bench: {wrong} elements were wrong, see #wrong", file=sys.stderr)
    return 1 if wrong else 0


def _write(
    args: argparse.Namespace,
    tables: list[list[SweepCase]],
    effort: Effort,
    comm: Communicator | None,
    measured: MeasuredCases,
) -> list[Path]:
    """Writes the record and the trace that the options ask for, of what was measured, and returns their paths."""
    files, cases = [], [case for table in tables for case in table]
    lacking = len(cases) - len(measured.rows)
    if args.json and measured.rows:
        own = {case.algorithm: case.schedule for case in cases}
        where = None if comm is None else comm.where
        among = [predicted(row, where, own.get(row["algorithm"]), effort.symmetric) for row in measured.rows]
        write(args.json, among, effort, lacking)
        files.append(args.json)
    if measured.traces:
        cut_off = f", without {lacking} of {len(cases)} cases" if lacking else ""
        chrome.write(session.in_sequence(measured.traces, f"bench {args.collective}{cut_off}"), args.trace)
        files.append(args.trace)
    return files


def _table(
    args: argparse.Namespace,
    table: list[SweepCase],
    effort: Effort,
    bar: Bar,
    measured: MeasuredCases,
    comm: Communicator | None,
) -> None:
    """Measures one table's cases, prints each as it is done, and adds it to those measured."""
    machine, first = describe(), table[0]
    hosts = 1 if comm is None else len(set(comm.hosts))
    one, more = ("thread", "threads") if args.threads else ("process", "processes")
    kind = (one if first.ranks == 1 else more) + f" on {hosts} hosts" * (hosts > 1)
    iterations = effort.iterations or "as many as take 0.1 s"
    names = " beside ".join(dict.fromkeys(case.algorithm for case in table))
    for line in (
        f"# ringtree {machine['ringtree']}: {first.collective}, {first.ranks} {kind}, algorithm {names}",
        f"# on {count(machine['cores'], 'core')} of {machine['cpu']}, {machine['kernel']}",
        f"# minBytes {table[0].nbytes} maxBytes {table[-1].nbytes} warmup iters: {effort.warmup} iters: {iterations} "
        f"validation: {int(effort.check)}",
        "#",
        *nccl_header(),
    ):
        bar.print(line)
    done = []
    if comm is None:
        found = session.rows(table, effort, threads=args.threads, traces=measured.traces)
    else:
        found = session.rows_of(comm, table, effort, traces=measured.traces)
    with closing(found):
        for row in found:
            measured.rows.append(row)
            done.append(row)
            bar.print(_line(row))
            bar.advance()
            bar.note(f"{row['algorithm']} {row['nbytes']:,} bytes")
    busbw: dict[str, list[float]] = {}
    for case, row in zip(table, done, strict=True):
        busbw.setdefault(case.algorithm, []).extend((row["busbw_GBps"], row["in_place_busbw_GBps"]))
    averages = {name: sum(each) / len(each) for name, each in busbw.items()}
    for line in nccl_footer(sum((r["wrong"] or 0) + (r["in_place_wrong"] or 0) for r in done), averages):
        bar.print(line)


def _line(row: BenchRow) -> str:
    apart = BandwidthCells(row["time_us"], row["algbw_GBps"], row["busbw_GBps"], row["wrong"])
    inside = BandwidthCells(
        row["in_place_time_us"], row["in_place_algbw_GBps"], row["in_place_busbw_GBps"], row["in_place_wrong"]
    )
    return nccl_row(
        row["nbytes"],
        row["count"],
        row["dtype"],
        row["op"],
        row["root"],
        apart if row["out_of_place"] else None,
        inside,
        f"{row['algorithm']} ({row['program']})",
    )


def _effort(args: argparse.Namespace) -> Effort:
    timed = 1 if args.iters is None else args.iters
    if not 0 <= args.warmup_iters <= MOST_CALLS or not 1 <= timed <= MOST_CALLS:
        given = f"-w {args.warmup_iters}" + ("" if args.iters is None else f" --iters {args.iters}")
        raise ValueError(
            f"{given}: expected a warm-up of at least 0 and at least 1 timed call, each at most {MOST_CALLS:,}"
        )
    return Effort(args.warmup_iters, args.iters, args.check > 0, args.average, args.local_register == 2)
