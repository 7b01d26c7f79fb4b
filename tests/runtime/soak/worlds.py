"""A soak of one world of ranks, from its start to the reports."""

from __future__ import annotations

import mmap
import os
import pickle

import numpy as np

from ringtree.errors import RankFailed
from ringtree.runtime.launch.spawn import spawn
from tests.runtime.soak.load import load
from tests.runtime.soak.rank import Link, Report, SoakSettings, soak
from tests.runtime.soak.values import Tables


class Failed(Exception):
    """A soak that failed: the report of each rank."""


def run(ranks: int, parameters: SoakSettings, busy: int) -> list[Report]:
    """The reports of all ranks, with `busy` processes beside them; Failed where something was wrong."""
    tables = Tables(ranks)
    at = np.frombuffer(mmap.mmap(-1, 8 * ranks), np.int64)
    ends = [os.pipe() for _ in range(ranks)]
    link = Link(os.getpid(), at, [write for _, write in ends])
    died = ""
    with load(busy):
        try:
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
        again = f"--ranks {ranks} --seed {parameters.seed} --mix {parameters.mix} --first {int(at.min())}"
        raise Failed("\n".join([*wrong, *([died] if died else []), calls, f'again: make soak ARGS="{again}"']))
    return reports


def _read(pipe: int) -> bytes:
    with open(pipe, "rb") as file:
        return file.read()
