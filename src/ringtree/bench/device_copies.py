"""Copies between the devices of a machine and its host, timed: which ones, of which sizes, and for how long each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from statistics import median
from typing import Protocol

from ringtree.machines.detect.nvml_state import GpuState
from ringtree.machines.machine import Machine
from ringtree.machines.measured.copies_table import CopyMethod, MeasuredCopy, Transfer
from ringtree.machines.paths import Paths

SIZES = (8, 1 << 16, 1 << 20, 1 << 24)
"""Sizes in bytes, below the most."""
MOST_PAGEABLE = 1 << 26
LEAST_BATCHES, MOST_BATCHES = 3, 200
IN_A_BATCH = 4
"""Copies of a batch from SINGLE bytes on: the next one starts while the last one runs, as in a stream of work."""
SINGLE = 1 << 20


class Copier(Protocol):
    """The devices of this machine, by the names that a machine gives them."""

    def time_s(self, transfer: Transfer, nbytes: int, copies: int) -> float:
        """Seconds of one of so many copies, one after the other."""

    def state(self, gpu: str) -> GpuState | None:
        """The GPU's state, read while it copies; None where the driver does not report it."""

    def refusal(self, source: str, target: str) -> str:
        """ "" where a GPU may have access to another's memory, else the reason."""


def transfers(machine: Machine, gpus: Sequence[str], refused: Callable[[str, str], str]) -> Iterator[Transfer]:
    """All transfers of those GPUs: to and from the host, alone and both at once, within each, and between every two,
    with peer access where it is not refused, and without."""
    paths = Paths(machine)
    for gpu in gpus:
        cpu = paths.cpu(machine.device(gpu))
        yield Transfer(gpu, gpu, CopyMethod.LOCAL)
        if cpu is None:
            continue
        host = machine.devices[cpu].name
        for method in (CopyMethod.PINNED, CopyMethod.PAGEABLE):
            yield Transfer(host, gpu, method)
            yield Transfer(gpu, host, method)
        yield Transfer(host, gpu, CopyMethod.PINNED, both=True)
    for source, target in permutations(gpus, 2):
        if not refused(source, target):
            yield Transfer(source, target, CopyMethod.PEER)
            if gpus.index(source) < gpus.index(target) and not refused(target, source):
                yield Transfer(source, target, CopyMethod.PEER, both=True)
        yield Transfer(source, target, CopyMethod.STAGED)


def sizes(transfer: Transfer, most_nbytes: int) -> list[int]:
    """The sizes in which a transfer is timed, the smallest first."""
    most = min(most_nbytes, MOST_PAGEABLE) if transfer.method is CopyMethod.PAGEABLE else most_nbytes
    return [nbytes for nbytes in SIZES if nbytes < most] + [most]


def measure(
    copier: Copier,
    wanted: Sequence[Transfer],
    seconds: float,
    most_nbytes: int,
    step: Callable[[str], None] = lambda text: None,
) -> list[MeasuredCopy]:
    """The median times of all transfers in all sizes, in about `seconds`, or longer: three batches of each."""
    rows = [(transfer, nbytes) for transfer in wanted for nbytes in sizes(transfer, most_nbytes)]
    found = []
    until = time.monotonic()
    for transfer, nbytes in rows:
        until = max(until, time.monotonic()) + seconds / len(rows)
        step(f"{transfer.source} to {transfer.target}, {transfer.method.value}")
        times = list(_batches(copier, transfer, nbytes, until))
        found.append(
            MeasuredCopy(transfer.source, transfer.target, transfer.method, nbytes, median(times), transfer.both)
        )
    return found


def _batches(copier: Copier, transfer: Transfer, nbytes: int, until: float) -> Iterator[float]:
    copies = IN_A_BATCH if nbytes >= SINGLE else 1
    copier.time_s(transfer, nbytes, 1)  # the first maps and wakes what later ones find ready
    for n in range(MOST_BATCHES):
        if n >= LEAST_BATCHES and time.monotonic() > until:
            return
        yield copier.time_s(transfer, nbytes, copies)


def states(copier: Copier, gpus: Sequence[str]) -> Mapping[str, GpuState]:
    """Each GPU's state under load, where the driver reports it."""
    found = {gpu: copier.state(gpu) for gpu in gpus}
    return {gpu: state for gpu, state in found.items() if state is not None}
