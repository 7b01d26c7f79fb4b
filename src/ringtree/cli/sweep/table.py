"""The tables of `ringtree sweep`, in nccl-tests' manner, where the best changes, and the plots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, inf, log

from ringtree.bench.record import bandwidths
from ringtree.cli import table
from ringtree.draw.text.lines import Line, TextSpan
from ringtree.draw.text.plot import plot
from ringtree.ir.units import duration, size
from ringtree.price import LowerBound

MOST_TABLES = 4
"""The most sizes with a table each, at several numbers of ranks; with more, one table of the best."""


@dataclass(frozen=True, slots=True)
class SweepLine:
    """One line of a table: seconds by algorithm. `groups`: the ranks of a group, of those that have groups of hosts."""

    collective: str
    ranks: int
    nbytes: int
    times_s: dict[str, float]
    bound: LowerBound
    groups: dict[str, int] = field(default_factory=dict)

    @property
    def best(self) -> str:
        """The quickest algorithm."""
        return min(self.times_s, key=self.times_s.__getitem__)


def lines(name: str, cases: Sequence[SweepLine], notes: Sequence[str] = ()) -> Iterator[Line]:
    """Yields the tables: over sizes for one number of ranks, over ranks for each size, or the fastest by both; the
    notes come first."""
    sizes, counts = ({getattr(c, field): None for c in cases} for field in ("nbytes", "ranks"))
    yield (TextSpan(f"# {cases[0].collective} on {name}, predicted from links and latencies, not measured"),)
    for note in notes:
        yield (TextSpan(f"# {note}"),)
    for algorithm in dict.fromkeys(name for case in cases for name in case.groups):
        groups = {case.groups[algorithm]: None for case in cases if algorithm in case.groups}
        sizes_of_groups = " and ".join(map(str, groups))
        yield (TextSpan(f"# {algorithm} with group={sizes_of_groups}: the ranks of a host"),)
    if len(counts) == 1:
        yield from _part(f"{cases[0].ranks:,} ranks", cases, "nbytes")
    elif len(sizes) <= MOST_TABLES:
        for nbytes in sizes:
            yield from _part(size(nbytes), [c for c in cases if c.nbytes == nbytes], "ranks")
    else:
        yield from _best_of_all(cases, list(sizes), list(counts))


def _part(what: str, cases: Sequence[SweepLine], over: str) -> Iterator[Line]:
    """Yields a table over sizes or ranks, conclusions from it, and its plot."""
    names = list(dict.fromkeys(name for c in cases for name in c.times_s))
    yield ()
    yield (TextSpan(f"# {what}: time by algorithm, bandwidth of the fastest"),)
    widths = [max(len(name) + 2, 11) for name in names]
    heads = ["size" if over == "nbytes" else "ranks", *names, "best", "algbw", "busbw", "of bound"]
    units = ["(B)" if over == "nbytes" else "", *["(us)"] * len(names), "", "(GB/s)", "(GB/s)", ""]
    spans = [13, *widths, max(map(len, names)) + 2, 10, 10, 10]
    for words in (heads, units):
        yield (TextSpan(table.head(words, spans), "faint"),)
    for case in cases:
        yield _row(case, names, spans, over)
    yield ()
    yield from _changes(cases, over)
    curves = {
        name: [(float(getattr(c, over)), c.times_s[name]) for c in cases if c.times_s.get(name)] for name in names
    }
    curves = {name: curve for name, curve in curves.items() if curve}
    drawn = plot(curves, size if over == "nbytes" else _count, duration) if curves else []
    yield from [(), *drawn] if drawn else []


def _row(case: SweepLine, names: Sequence[str], widths: Sequence[int], over: str) -> Line:
    best_s = case.times_s[case.best]
    algbw, busbw = bandwidths(case.collective, case.ranks, case.nbytes, best_s * 1e6)
    cells = [TextSpan(f"{getattr(case, over):>{widths[0]}}")]
    for name, width in zip(names, widths[1:], strict=False):
        time_s = case.times_s.get(name)
        text = "-" if time_s is None else table.microseconds(time_s)
        cells.append(TextSpan(f"{text:>{width}}", "kept" if name == case.best else ""))
    fraction = f"{min(case.bound.time_s / best_s, 1.0):.0%}" if best_s else "-"
    ends = (case.best, f"{algbw:.2f}", f"{busbw:.2f}", fraction)
    return (*cells, TextSpan(table.row(ends, widths[1 + len(names) :])))


def _changes(cases: Sequence[SweepLine], over: str) -> Iterator[Line]:
    """Yields the fastest algorithm by size or ranks, and the lower bound of the last row."""
    label = _size if over == "nbytes" else _count
    since = {float(getattr(cases[0], over)): cases[0].best}  # two may be as quick at the first
    for before, after in pairwise(cases):
        if after.best != before.best:
            since[_crossing(before, after, over)] = after.best
    yield (TextSpan(f"# fastest: {', '.join(f'{name} from {label(x)}' for x, name in since.items())}"),)
    last = cases[-1]
    least = f"{duration(last.bound.time_s)}, {last.bound.bottleneck}"
    yield (TextSpan(f"# lower bound at {label(getattr(last, over))}: {least}"),)


def _size(nbytes: float) -> str:
    return size(ceil(nbytes))


def _crossing(before: SweepLine, after: SweepLine, over: str) -> float:
    """The size or rank count at which `after`'s best overtakes `before`'s; lines are straight on logarithmic axes."""
    low, high = (float(getattr(case, over)) for case in (before, after))
    old, new = ([case.times_s.get(name, inf) for case in (before, after)] for name in (before.best, after.best))
    if inf in (*old, *new) or 0 in (*old, *new):
        return high
    behind, ahead = log(new[0] / old[0]), log(old[1] / new[1])
    return low * (high / low) ** (behind / (behind + ahead)) if behind + ahead else high


def _best_of_all(cases: Sequence[SweepLine], sizes: Sequence[int], counts: Sequence[int]) -> Iterator[Line]:
    """The best by size (down) and ranks (across)."""
    found = {(c.nbytes, c.ranks): c.best for c in cases}
    width = max(*(len(name) for name in found.values()), 8) + 2
    yield ()
    yield (TextSpan("# fastest algorithm, by size (down) and ranks (across)"),)
    yield (TextSpan(f"#{'size':>11}" + "".join(f"{count:>{width},}" for count in counts), "faint"),)
    for nbytes in sizes:
        yield (TextSpan(f"{size(nbytes):>12}" + "".join(f"{found[nbytes, count]:>{width}}" for count in counts)),)


def _count(number: float) -> str:
    return f"{number:,.0f} rank{'s' * (round(number) != 1)}"
