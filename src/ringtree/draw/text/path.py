"""A critical path as a few lines of text: repeated steps are written once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ringtree.ir.critical_path import PathStep
from ringtree.ir.host_links import crossing
from ringtree.ir.trace import Event, Trace
from ringtree.ir.units import duration, size

LONGEST_PATTERN = 6
"""Steps of a pattern that is looked for."""
ALL_RANKS = "all ranks, before their first step"
MOST_RANKS = 5
"""More are shown as the first and the last."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Steps `first` and those after it: the same few kinds of step, `times` over."""

    first: int
    pattern: int
    times: int

    @property
    def stop(self) -> int:
        return self.first + self.pattern * self.times


def path_lines(trace: Trace, path: Sequence[PathStep], most: int = 12, launch_s: float = 0.0) -> list[str]:
    """A line a step, or a run of like steps: when it begins, how long it takes, what is done and where. At most `most`
    lines; the shortest are left out then, and a last line gives their number. `launch_s`: from the call to the trace's
    first event, a line of its own."""
    away = crossing(trace)
    words = [_words(trace, step, bool(step.event >= 0 and away[step.event])) for step in path]
    runs = _runs(words)
    origin = path[0].start_s - launch_s if path else 0.0
    kept = sorted(sorted(runs, key=lambda run: -_lasts(path, run))[:most], key=lambda run: run.first)
    rows = [
        (duration(path[run.first].start_s - origin), duration(_lasts(path, run)), _written(trace, path, words, run))
        for run in kept
    ]
    if launch_s > 0:
        rows.insert(0, (duration(0.0), duration(launch_s), f"launch  ({ALL_RANKS})"))
    begins, lasts = (max((len(row[k]) for row in rows), default=0) for k in (0, 1))
    lines = [f"{begin:>{begins}}  +{last:<{lasts}}  {text}" for begin, last, text in rows]
    if left := [run for run in runs if run not in kept]:
        steps = sum(run.pattern * run.times for run in left)
        lines.append(f"and {steps} shorter steps, {duration(sum(_lasts(path, run) for run in left))} in all")
    return lines


def _lasts(path: Sequence[PathStep], run: _Run) -> float:
    return path[run.stop - 1].end_s - path[run.first].start_s


def _runs(kinds: Sequence[object]) -> list[_Run]:
    """Repeated patterns from left to right: the pattern that covers most, if it is there twice at least."""
    runs, at = list[_Run](), 0
    while at < len(kinds):
        best = _Run(at, 1, 1)
        for pattern in range(1, LONGEST_PATTERN + 1):
            stop = at + pattern
            while stop < len(kinds) and kinds[stop] == kinds[stop - pattern]:
                stop += 1
            times = (stop - at) // pattern
            if times > 1 and times * pattern > best.pattern * best.times:
                best = _Run(at, pattern, times)
        runs.append(best)
        at = best.stop
    return runs


def _written(trace: Trace, path: Sequence[PathStep], words: Sequence[str], run: _Run) -> str:
    pattern = ", ".join(words[run.first : run.first + run.pattern])
    over = f"{run.times} times: " if run.times > 1 else ""
    return f"{over}{pattern}  ({_ranks(trace, path[run.first : run.stop])})"


def _words(trace: Trace, step: PathStep, away: bool) -> str:
    nbytes = int(trace.nbytes[step.event]) if step.event >= 0 else 0
    where = " between hosts" if away and step.what == "message" else ""
    return step.what + where + (f" {size(nbytes)}" if nbytes and step.what != "wait" else "")


def _ranks(trace: Trace, steps: Sequence[PathStep]) -> str:
    """The ranks in the order in which the path comes through them."""
    passed = list[int]()
    for step in steps:
        ends = [step.rank]
        if step.what == "message" and trace.kind[step.event] == Event.SEND:
            ends.append(int(trace.peer[step.event]))
        passed += [rank for k, rank in enumerate(ends) if rank != (passed[-1] if passed and k == 0 else -1)]
    passed = [rank for k, rank in enumerate(passed) if k == 0 or rank != passed[k - 1]]
    if len(passed) > MOST_RANKS:
        return f"rank {passed[0]} → {passed[1]} → … → {passed[-1]}"
    return "rank " + " → ".join(map(str, passed))
