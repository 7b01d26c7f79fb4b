"""nccl-tests' lists of devices: the ranks of each run in a log, and runs that are not of one test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from ringtree.ir.units import enumeration, size
from ringtree.nccl.files.measured_rows import NcclTestsRow

MOST_RANKS = 1 << 20
MOST_NAMED = 16
"""Gaps between ranks that a note names."""
SAME_WITHIN = 1.05
"""The factor below which times of two runs are alike."""
FEW_NAMES = 4
"""Runs, and hosts of a run, that a note names."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A line of the list of devices. `pid`: of its process, "" where the line has none."""

    rank: int
    host: str
    device: int
    busid: str
    model: str
    pid: str = ""

    @property
    def place(self) -> tuple[str, int, str]:
        """Host and device, which two ranks of one program have never alike."""
        return self.host, self.device, self.busid


@dataclass(slots=True)
class NcclTestsRun:
    """A list of devices, whose first is in that line, and the rows that follow it: by their programs and sizes, the
    quickest. `groups`: of ranks that test side by side (NCCL_TESTS_SPLIT). `mixed`: a rank that is in two places, in
    words; `again`: one that is twice in one place, as two processes."""

    line: int
    ranks_at: dict[int, tuple[Ran, int]] = field(default_factory=dict)
    groups: set[int] = field(default_factory=set)
    quickest: dict[str, dict[int, NcclTestsRow]] = field(default_factory=dict)
    mixed: str = ""
    again: str = ""

    def add(self, device: Ran, group: int, line: int) -> None:
        """Takes up a line of the list; one that repeats another's rank and place counts once."""
        self.groups.add(group)
        first, at = self.ranks_at.setdefault(device.rank, (device, line))
        if first.place != device.place:
            self.mixed = self.mixed or (
                f"line {line}: rank {device.rank} is on {device.host}, device {device.device}, and in line {at} on "
                f"{first.host}, device {first.device}"
            )
        elif first.pid != device.pid:
            self.again = self.again or (
                f"lines {at} and {line}: rank {device.rank} is listed as process {first.pid} and as {device.pid}: "
                "programs side by side, or one that began again"
            )

    def measured(self, program: str, row: NcclTestsRow | None) -> None:
        """Takes up a row of the program; None: one that does not count."""
        rows = self.quickest.setdefault(program, {})
        if row is not None and (row.nbytes not in rows or row.time_s < rows[row.nbytes].time_s):
            rows[row.nbytes] = row

    @property
    def ran(self) -> tuple[Ran, ...]:
        """The list, in its order."""
        return tuple(ran for ran, _ in self.ranks_at.values())

    @property
    def hosts(self) -> tuple[str, ...]:
        """Each host once, in the list's order."""
        return tuple(dict.fromkeys(ran.host for ran, _ in self.ranks_at.values()))

    @property
    def ranks(self) -> int:
        """The number of ranks of all groups."""
        return max(self.ranks_at, default=-1) + 1

    @property
    def missing(self) -> str:
        """The ranks that have no line, in words."""
        gaps = [(a + 1, b - 1) for a, b in pairwise([-1, *sorted(self.ranks_at)]) if b > a + 1]
        named = [f"{a}" if a == b else f"{a} to {b}" for a, b in gaps[:MOST_NAMED]]
        return ", ".join(named) + (f" and {len(gaps) - MOST_NAMED:,} more" if len(gaps) > MOST_NAMED else "")


def refuse_mixed(path: Path, runs: Sequence[NcclTestsRun]) -> None:
    """ValueError, naming the line: a run has groups or is of two programs at once, or runs differ in their numbers."""
    for run in runs:
        if len(run.groups) > 1:
            raise ValueError(
                f"{path}, line {run.line}: {len(run.groups)} groups of ranks side by side (NCCL_TESTS_SPLIT); "
                "expected one"
            )
        if run.mixed:
            raise ValueError(
                f"{path}, {run.mixed}, with no row between them: the outputs of two programs are mixed; expected a "
                "file for each"
            )
        first, missing = runs[0], run.missing
        for what, one, other in (("ranks", run.ranks, first.ranks), ("hosts", len(run.hosts), len(first.hosts))):
            if one != other and (what == "ranks" or not (missing or first.missing)):
                raise ValueError(
                    f"{path}, line {run.line}: a run of {one} {what} behind one of {other} (line {first.line}); "
                    "expected runs of as many"
                )
        if missing and run.ranks > 2 * len(run.ranks_at):
            raise ValueError(
                f"{path}, line {run.line}: the list of devices lacks ranks {missing}; expected a line for each"
            )


def notes(runs: Sequence[NcclTestsRun]) -> Iterator[str]:
    """Notes on ranks that are not in their run's list, or are in it twice."""
    for run in runs:
        if missing := run.missing:
            yield f"line {run.line}: the list of devices lacks ranks {missing}"
        if run.again:
            yield run.again


def on_other_hosts(runs: Sequence[NcclTestsRun], program: str) -> str:
    """A note on runs of one program on different hosts, with the slowest beside the quickest; "" where there are
    none."""
    if len({frozenset(run.hosts) for run in runs}) < 2:
        return ""
    named = [f"{_listed(run.hosts)} (line {run.line})" for run in runs]
    words = f"{len(runs)} runs, on {_listed(named)}, are judged as one, each size by the quickest"
    return f"{words} ({_compared(runs, program)}); a file for each has a verdict for each"


def _compared(runs: Sequence[NcclTestsRun], program: str) -> str:
    """Sizes at which the slowest run took longest beside the quickest: the worst, and the largest."""
    timed: dict[int, list[tuple[float, NcclTestsRun]]] = {}
    for run in runs:
        for nbytes, row in run.quickest[program].items():
            timed.setdefault(nbytes, []).append((row.time_s, run))
    ends = {n: (min(t, key=_time_s), max(t, key=_time_s)) for n, t in timed.items() if len(t) > 1}
    if not ends:
        return "no size is of two of them"
    apart = {n: slow[0] / quick[0] for n, (quick, slow) in ends.items()}
    worst, largest = max(apart, key=lambda n: apart[n]), max(apart)
    if apart[worst] < SAME_WITHIN:
        return f"no time is over {SAME_WITHIN:g} times another's"
    shown = [largest] if apart[worst] < SAME_WITHIN * apart[largest] else [worst, largest]
    return ", ".join(
        f"{size(n)} took {apart[n]:.3g} times as long on {_listed(ends[n][1][1].hosts)} as on "
        f"{_listed(ends[n][0][1].hosts)}"
        for n in dict.fromkeys(shown)
        if apart[n] > 1
    )


def _time_s(timed: tuple[float, NcclTestsRun]) -> float:
    return timed[0]


def _listed(names: Sequence[str]) -> str:
    """`a`, `a, b and c`, and of more than FEW_NAMES how many more there are."""
    few = [*names[:FEW_NAMES], *([f"{len(names) - FEW_NAMES:,} more"] if len(names) > FEW_NAMES else [])]
    return enumeration(few)
