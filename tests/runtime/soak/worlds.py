"""A soak of one world of ranks, from its start to the reports."""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ringtree.errors import RankFailed
from ringtree.runtime.launch.spawn import spawn
from ringtree.runtime.launch.spawn_processes import Processes
from tests.runtime.hosts.conftest import PORT, parameters_on
from tests.runtime.hosts.lab import Lab
from tests.runtime.hosts.lab import missing as missing_lab
from tests.runtime.soak.load import load
from tests.runtime.soak.rank import Link, Report, SoakSettings, soak
from tests.runtime.soak.through_torch import missing as missing_torch
from tests.runtime.soak.values import Tables


class Failed(Exception):
    """A soak that failed: the report of each rank."""


@dataclass(frozen=True)
class Kind:
    """What a world's ranks are: `layout`, how many each host has (none: all are on this machine); threads of each rank;
    whether they call torch.distributed."""

    layout: tuple[int, ...] = ()
    threads: int = 1
    torch: bool = False

    def __str__(self) -> str:
        words = [f"on hosts of {', '.join(map(str, self.layout))}"] * bool(self.layout)
        words += [f"of {self.threads} threads"] * (self.threads > 1) + ["through torch.distributed"] * self.torch
        return " ".join(words) or "on one machine"

    def missing(self) -> str:
        """Why there can be none here; "" where there can."""
        return (missing_lab() if self.layout else "") or (missing_torch() if self.torch else "")

    @property
    def options(self) -> str:
        """As options of the command."""
        hosts = f" --hosts {','.join(map(str, self.layout))}" if self.layout else ""
        return hosts + f" --threads {self.threads}" * (self.threads > 1) + " --torch" * self.torch


def run(ranks: int, parameters: SoakSettings, busy: int, kind: Kind = Kind()) -> list[Report]:
    """The reports of all ranks, with `busy` processes beside them; Failed where something was wrong."""
    tables = Tables(ranks)
    at = np.frombuffer(mmap.mmap(-1, 8 * ranks), np.int64)
    ends = [os.pipe() for _ in range(ranks)]
    link = Link(os.getpid(), at, [write for _, write in ends])
    died = ""
    with load(busy), tempfile.TemporaryDirectory(prefix="ringtree-soak-") as folder:
        parameters = replace(parameters, threads=kind.threads, folder=folder if kind.torch else "")
        try:
            if kind.layout:
                died = _over_hosts(kind.layout, parameters, (parameters, tables, link))
            else:
                spawn(soak, ranks, parameters, tables, link, timeout_s=parameters.timeout_s)
        except RankFailed as error:
            died = str(error).strip()
        finally:
            for _, write in ends:
                os.close(write)
            texts = [_read(read) for read, _ in ends]
    reports = [pickle.loads(text) for text in texts if text]
    wrong = [report.wrong for report in reports if report.wrong]
    if died or wrong:
        calls = ", ".join(f"rank {rank} at call {call:,}" for rank, call in enumerate(at.tolist()))
        again = f"--ranks {ranks} --seed {parameters.seed} --mix {parameters.mix} --first {int(at.min())}{kind.options}"
        raise Failed("\n".join([*wrong, *([died] if died else []), calls, f'again: make soak ARGS="{again}"']))
    return reports


def _over_hosts(layout: tuple[int, ...], parameters: SoakSettings, arguments: tuple[Any, ...]) -> str:
    """Ranks on hosts that are namespaces; what became of one that has failed."""
    with Lab(len(layout)) as lab:
        members = parameters_on(lab, layout, PORT + os.getpid() % 1000, parameters.timeout_s)
        crew = Processes("shm", members, (soak, arguments), False)
        try:
            outcomes = crew.finish(5.0)
        finally:
            crew.stop()
    return "\n".join(f"rank {rank} failed: {outcome.story}" for rank, outcome in outcomes if outcome.failed)


def _read(pipe: int) -> bytes:
    with open(pipe, "rb") as file:
        return file.read()
