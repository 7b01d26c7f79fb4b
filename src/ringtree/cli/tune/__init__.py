"""Measuring this machine: `ringtree tune`."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from ringtree.bench import contenders
from ringtree.bench.machine import cores_here, describe, usable_cores
from ringtree.bench.network import measure_network
from ringtree.bench.tuned_text import text
from ringtree.bench.tuning import Tuning, in_turns, tune
from ringtree.cli.arguments.byte_sizes import parse_bytes
from ringtree.cli.arguments.destination import check_destination
from ringtree.cli.options.hosts import ON_HOSTS, are_given
from ringtree.cli.options.running.tune import SECONDS
from ringtree.cli.options.subject import span
from ringtree.cli.terminal import progress
from ringtree.files.replacing import replacing
from ringtree.ir.units import count, duration, size
from ringtree.price import CostParameters, NetworkCost
from ringtree.price.memory.fitting import errors, fit
from ringtree.price.memory.parameters import FASTEST_BPS
from ringtree.runtime import tuned
from ringtree.runtime.bootstrap.environment import detect, leave_launcher
from ringtree.runtime.processor import cores
from ringtree.runtime.world import init

DEVICES = "ringtree.cli.tune.devices"
"""Loaded where --device or --from is given."""
MOST = "64M"
LONGEST_S = 3600.0
MOST_RANKS = 64
PROGRAMS_SHARE, MEASURED_SHARE = 0.5, 0.9
"""The shares of the time after which algorithms are measured against each other, and after which parameters are
fitted."""


def run(args: argparse.Namespace) -> int:
    """Measures this machine, on the hosts that are given, or devices. Returns the exit code."""
    if args.seconds is not None and not 0 < args.seconds <= LONGEST_S:
        raise ValueError(f"--seconds {args.seconds:g}: expected more than 0, at most {LONGEST_S:g}")
    hosts, devices = are_given(args), args.device or args.from_file
    if devices and hosts:
        raise ValueError("--hosts measures ranks on CPUs and their network; expected no --device or --from beside it")
    if args.json and not devices:
        raise ValueError("--json is for copies between devices; expected --device or --from beside it")
    code: int
    if devices:
        code = import_module(DEVICES).run(args)
    elif hosts:
        code = import_module(ON_HOSTS).run_on_each(args, 2)  # one has no network to measure
    else:
        code = _measure(args)
    return code


def _measure(args: argparse.Namespace) -> int:
    """Measures, fits cost parameters and writes them to a file. Returns the exit code."""
    from datetime import datetime

    here = cores_here()
    ranks = args.ranks or usual_ranks(len(here) or usable_cores())
    if not 2 <= min(ranks) <= max(ranks) <= MOST_RANKS:
        raise ValueError(f"-n/--ranks {span(ranks)}: expected 2 to {MOST_RANKS} ranks; a single rank sends nothing")
    if (most := parse_bytes(args.maxbytes or MOST)) < 8:
        raise ValueError(f"--maxbytes {args.maxbytes}: expected 8 bytes at least")
    path = args.output or Path(tuned.location())
    few = _few(here)
    if args.output is None:
        if few:
            raise ValueError(
                f"this process may use {few}; expected all, or --output FILE: init() takes {path} as measured on all"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
    check_destination(path)
    date = datetime.now().astimezone().isoformat(timespec="seconds")
    network, host_of, rank = _network(date)
    if rank:
        return 0  # rank 0 measures its host alone
    if here:
        os.sched_setaffinity(0, here)
    measured, parameters, turns, left_out = _measured(ranks, args.seconds, most, date)
    measured_now = network is not None
    if network is None:
        network, host_of = _known(path)
    failure = _written(path, text(parameters, tuple(sorted(set(ranks))), date, network, host_of))
    machine = describe()
    print(f"{count(machine['cores'], 'core')} of {machine['cpu']}, {span(ranks)} ranks, {_counts(measured)}")
    longest = max(call.nbytes for call in measured.calls)
    for line in lines(parameters, oversubscribed=max(ranks) > machine["cores"], most_nbytes=2 * longest):
        print(line)
    if nodes := max(len(set(call.memory.node_of)) for call in measured.calls):
        print(_between_nodes(parameters, nodes))
    if measured_now and network is not None:
        print(_between(network, host_of))
    if few:
        print(f"measured on {few}, as this process may use no more; init() takes the file as measured on all")
    error = errors(parameters, measured.calls)
    print(f"error of predicted times of these calls: median {error[0]:.0%}, 90th percentile {error[1]:.0%}")
    print(_against(len(parameters.corrections), turns, left_out, args.seconds))
    if failure is not None:
        raise failure
    print(
        f"written to {path}"
        + ("" if path == Path(tuned.location()) else f"; init() reads it if {tuned.VARIABLE} is set to it")
    )
    return 0


def _measured(ranks: list[int], asked_s: float | None, most: int, date: str) -> tuple[Tuning, CostParameters, int, int]:
    """The calls that parameters are fitted to; the parameters, corrected by those of algorithms beside each other; the
    turns of these, and how many calls were left out. Without seconds that are asked for all calls are measured."""
    began, seconds, whole = time.monotonic(), asked_s or SECONDS, asked_s is None
    with progress("tune, seconds", total=round(seconds)) as bar:

        def step(text: str) -> None:
            bar.reach(min(time.monotonic() - began, seconds))
            bar.note(text)

        measured = tune(ranks, seconds * PROGRAMS_SHARE, step, most, whole)
        against = [row for n in sorted(set(ranks)) for row in contenders.rows(n, most)]
        left_s = seconds * MEASURED_SHARE - (time.monotonic() - began)
        times, turns = in_turns(against, left_s, step, least=len(against) if whole else 0)
    parameters = fit(measured.calls, f"parameters measured on {date}")
    took_s = contenders.complete(against, times)
    left_out = len({case for row in against for case in row}) - len(took_s)
    return measured, contenders.corrected(parameters, took_s), turns, left_out


def _written(path: Path, contents: str) -> OSError | None:
    """Writes the file; returns the error where that fails, which waits until the figures are printed."""
    try:
        with replacing(path) as file:
            file.write(contents.encode())
    except OSError as error:
        return error
    return None


def _few(here: set[int]) -> str:
    """The number of cores to measure on, in words, where this host has more."""
    return f"{len(here)} of {count(cores(), 'core')}" if 0 < len(here) < cores() and detect().rank == 0 else ""


def _network(date: str) -> tuple[NetworkCost | None, tuple[int, ...], int]:
    """The network between the hosts of a launcher's ranks, for rank 0, the host of each rank, and this process's
    rank."""
    world = detect()
    if world.size == 1:
        return None, (), 0
    comm = init()
    try:
        return measure_network(comm, f"measured on {date}"), tuple(comm.hosts), comm.rank
    finally:
        comm.close()
        leave_launcher()


def _known(path: Path) -> tuple[NetworkCost | None, tuple[int, ...]]:
    """The network that was measured before, which a measurement of this host alone leaves as it is, and the host of
    each rank that measured it."""
    try:
        known = tuned.read(path)
        return known.network, known.host_of
    except ValueError:
        return None, ()


def _between_nodes(parameters: CostParameters, nodes: int) -> str:
    """The costs of what crosses between NUMA nodes, in a line."""
    f = parameters
    each = f"bytes from a peer at {_rate(f.across_Bps)} on top, {_rate(f.link_Bps)} of all bytes to a node"
    return f"between {nodes} NUMA nodes: a message {duration(f.across_s)} longer, {each}"


def _between(network: NetworkCost, host_of: tuple[int, ...]) -> str:
    """The network in a line."""
    message = f"a message {duration(network.latency_s)} and {duration(network.message_s)} of a core at each end"
    each = ", ".join(str(host_of.count(host)) for host in sorted(set(host_of)))
    ranks = f"{count(len(host_of), 'rank')} on {count(len(set(host_of)), 'host')}: {each}"
    return f"between hosts: {message}, {_rate(network.bandwidth_Bps)} of payload each way ({ranks})"


def _against(calls: int, turns: int, left_out: int, seconds: float | None) -> str:
    """The algorithms that were measured against each other, in a line."""
    if not calls:
        return f"no algorithms measured against each other, as --seconds {seconds:g} were over"
    measured = f"{count(calls, 'call')} of algorithms that calls choose from, in {count(turns, 'turn')}"
    left = f"; {left_out:,} more left out, as --seconds {seconds:g} were over" if left_out else ""
    return f"{measured}: predicted as they took{left}"


def usual_ranks(cores: int) -> list[int]:
    """Two, a core each, and two a core, of the first eight."""
    few = min(cores, 8)
    return sorted({2, max(few, 2), 2 * few if few > 1 else 3})


def lines(parameters: CostParameters, oversubscribed: bool, most_nbytes: int) -> Iterator[str]:
    """The cost parameters in words. `oversubscribed`: whether turns on a shared core were measured; `most_nbytes`: up
    to how many bytes in arrays rates were. What was not measured is near the built-in parameters."""
    f = parameters
    yield f"a call {duration(f.call_s)}, a step {duration(f.step_s)}"
    yield f"a message {duration(f.message_s)} at each end and {duration(f.latency_s)} in transit"
    turns = f"a turn {duration(f.turn_s)}, a synchronization {duration(f.switch_s)}"
    yield f"for each rank that shares a core: {turns}{'' if oversubscribed else ' (not measured)'}"
    heads, widths = ("copy", "from a peer", "on a shared core", "reduce", "attach"), (10, 12, 17, 10, 10)
    yield f"{'bytes in arrays':>15}{''.join(f'  {head:>{w}}' for head, w in zip(heads, widths, strict=True))}"
    columns = f.copy_Bps, f.fetch_Bps, f.oversubscribed_fetch_Bps, f.reduce_Bps, f.attach_Bps
    for nbytes, *rates in zip(f.memory_nbytes, *columns, strict=True):
        shown = "".join(f"  {_rate(rate):>{w}}" for rate, w in zip(rates, widths, strict=True))
        yield f"{size(nbytes):>15}{shown}{'' if nbytes <= most_nbytes else '  (not measured)'}"


def _rate(rate_Bps: float) -> str:
    return "not fitted" if rate_Bps >= FASTEST_BPS / 2 else f"{rate_Bps / 1e9:.3g} GB/s"


def _counts(measured: Tuning) -> str:
    return f"{len(measured.calls)} calls in {count(measured.turns, 'turn')}"
