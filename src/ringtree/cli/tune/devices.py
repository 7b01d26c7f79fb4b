"""Measuring the copies between GPUs and their host, and where they are below nominal: `ringtree tune --device cuda`."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import permutations
from pathlib import Path
from typing import Any

from ringtree.bench import device_copies
from ringtree.cli.arguments.byte_sizes import parse_bytes
from ringtree.cli.arguments.destination import check_destinations
from ringtree.cli.options.running.tune import SECONDS
from ringtree.cli.table import aligned
from ringtree.cli.terminal import progress
from ringtree.files.replacing import replacing
from ringtree.ir.units import bandwidth, count, duration, size
from ringtree.machines.detect import detect
from ringtree.machines.detect.nvml import INSTALL
from ringtree.machines.detect.nvml_state import gpu_states
from ringtree.machines.files import machine_json
from ringtree.machines.host.peer_access import explained, peer_pairs
from ringtree.machines.machine import DeviceKind
from ringtree.machines.measured import copies_table
from ringtree.machines.measured.copies_table import CopyMethod, CopyTable, Rate, Transfer
from ringtree.machines.measured.expected import Expected
from ringtree.machines.measured.findings import Finding, findings
from ringtree.machines.measured.fitting import fit
from ringtree.machines.sysfs import Sysfs
from ringtree.runtime import tuned

COPIERS = {"cuda": ("ringtree.bench.cuda_copies", "CudaCopier")}
"""The module of each --device, loaded where it is asked for, and its class."""
NAME = "devices.json"
MOST = "256M"


def run(args: argparse.Namespace) -> int:
    """Measures copies, or reads those of --from; prints them and what is below nominal, and writes the fitted machine.
    Returns the exit code."""
    if args.ranks:
        raise ValueError("-n/--ranks is for ranks on CPUs; expected none beside --device: all GPUs are measured")
    path = args.output or Path(tuned.location({**os.environ, tuned.VARIABLE: ""})).parent / NAME
    if args.output is None:
        path.parent.mkdir(parents=True, exist_ok=True)
    check_destinations(args, path, args.json)
    table = copies_table.read(args.from_file) if args.from_file else _measured(args)
    fitted = fit(table)
    for line in lines(table):
        print(line)
    for file, text in (
        (path, machine_json.text(fitted)),
        *(((args.json, copies_table.text(table)),) * bool(args.json)),
    ):
        with replacing(file) as opened:
            opened.write(text.encode())
    print(f"written to {path}; ringtree topo show {path} draws it, ringtree plan --topology {path} predicts by it")
    return 0


def _measured(args: argparse.Namespace) -> CopyTable:
    """This machine's copies."""
    from datetime import datetime

    most = parse_bytes(args.maxbytes or MOST)
    if not device_copies.SINGLE <= most <= 1 << 32:
        raise ValueError(f"--maxbytes {args.maxbytes}: expected 1M to 4G beside --device")
    seconds = args.seconds or SECONDS
    module, name = COPIERS[args.device]
    loaded = import_module(module)
    loaded.driver()  # before the machine is looked at: without it there is nothing to measure
    copier: Any = getattr(loaded, name)(detect(), most)
    try:
        machine = copier.machine
        wanted = list(device_copies.transfers(machine, copier.gpus, copier.refusal))
        began = time.monotonic()
        with progress("tune, seconds", total=round(seconds)) as bar:

            def step(text: str) -> None:
                bar.reach(min(time.monotonic() - began, seconds))
                bar.note(text)

            rows = device_copies.measure(copier, wanted, seconds, most, step)
        states = device_copies.states(copier, copier.gpus)
        pairs = peer_pairs(machine, Sysfs(Path("/")), states)
        reasons = {frozenset((pair.source, pair.target)): explained(pair) for pair in pairs if pair.allowed is False}
        refused = {
            (a, b): reasons.get(frozenset((a, b)), why)
            for a, b in permutations(copier.gpus, 2)
            if (why := copier.refusal(a, b))
        }
    finally:
        copier.close()
    date = datetime.now().astimezone().isoformat(timespec="seconds")
    return CopyTable(machine, tuple(rows), date, states, refused, gpu_states()[0].driver)


def lines(table: CopyTable) -> Iterator[str]:
    """The table in words: the host's copies, those between GPUs, and the findings."""
    expected, rates = Expected(table), table.rates()
    gpus = [d for d in table.machine.devices if d.kind is DeviceKind.GPU]
    names = [d.name for d in gpus if any(d.name in (t.source, t.target) for t in rates)]
    models = ", ".join(dict.fromkeys(d.model for d in gpus))
    yield f"{table.machine.name}: {count(len(names), 'GPU')} ({models}), copies of up to {size(_most(table))}"
    yield ""
    yield from _with_host(expected, rates, names)
    for method, both in ((CopyMethod.PEER, False), (CopyMethod.PEER, True), (CopyMethod.STAGED, False)):
        if len(names) > 1 and any((t.method, t.both) == (method, both) for t in rates):
            yield ""
            yield from _between(rates, names, method, both)
    yield ""
    yield from finding_lines(findings(table))
    if not table.states:
        yield f"NVML reported nothing, so that causes are unknown; with it they are named: {INSTALL}"


def _most(table: CopyTable) -> int:
    return max((row.nbytes for row in table.rows), default=0)


def _with_host(expected: Expected, rates: Mapping[Transfer, Rate], names: Sequence[str]) -> Iterator[str]:
    """A row a GPU: from and to the host, and within the GPU."""
    rows = [["", "host", "to GPU", "from GPU", "both, each", "nominal", "pageable to", "from", "8 B", "within", "8 B"]]
    for name in names:
        host = next((t.source for t in rates if t.target == name and t.method is CopyMethod.PINNED), "")
        to, back = Transfer(host, name, CopyMethod.PINNED), Transfer(name, host, CopyMethod.PINNED)
        both = Transfer(host, name, CopyMethod.PINNED, both=True)
        pageable = (Transfer(host, name, CopyMethod.PAGEABLE), Transfer(name, host, CopyMethod.PAGEABLE))
        within = Transfer(name, name, CopyMethod.LOCAL)
        nominal = expected.bandwidth_Bps(to) if host else None
        figures = [_shown(rates, one) for one in (to, back, both)]
        figures += [bandwidth(nominal) if nominal else "-", *(_shown(rates, one) for one in pageable)]
        figures += [_latency(rates, to), _shown(rates, within), _latency(rates, within)]
        rows.append([name, host, *figures])
    yield from aligned(rows, 2)


def _between(rates: Mapping[Transfer, Rate], names: Sequence[str], method: CopyMethod, both: bool) -> Iterator[str]:
    """A matrix of bandwidths from row to column, with the least and most latency below."""
    how = "with peer access" if method is CopyMethod.PEER else "without peer access"
    title = f"{how}{', both ways at once, each' if both else ''}"
    rows = [[title, *names]]
    for source in names:
        transfers = [Transfer(source, target, method, both) for target in names]
        rows.append([source, *(_shown(rates, one) for one in transfers)])
    yield from aligned(rows, 1)
    found = [rate.latency_s for t, rate in rates.items() if (t.method, t.both) == (method, both)]
    if not both:
        yield f"a copy of 8 B: {duration(min(found))} to {duration(max(found))}"


def _shown(rates: Mapping[Transfer, Rate], transfer: Transfer) -> str:
    return bandwidth(rates[transfer].bandwidth_Bps) if transfer in rates else "-"


def _latency(rates: Mapping[Transfer, Rate], transfer: Transfer) -> str:
    return duration(rates[transfer].latency_s) if transfer in rates else "-"


def finding_lines(found: Sequence[Finding]) -> Iterator[str]:
    """Each finding with its remedies below."""
    if not found:
        yield "nothing is below its nominal figures"
    for finding in found:
        yield f"{finding.about}: {finding.text}"
        for remedy in finding.remedies:
            yield f"    {remedy}"
