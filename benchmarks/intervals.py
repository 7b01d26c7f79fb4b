"""How many published points lie in the predictions' intervals, and how wide those are.

    python -m benchmarks.intervals            coverage and width of each system, and overall
    python -m benchmarks.intervals --sizes    each size too: measured beside the interval
    python -m benchmarks.intervals --record   compute the systems' factors again: src/ringtree/nccl/interval/compared.py

Points, systems and tables are those of benchmarks/validate.py, which prints the first of these too. A system's own
factor is left out of its intervals, and where no other system has its class, it counts as never compared.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, nan
from pathlib import Path
from statistics import mean, median
from typing import Any

from ringtree.nccl import transport, tuning
from ringtree.nccl.interval import Interval, Intervals, halves, rivals
from ringtree.nccl.interval.classes import class_of
from ringtree.nccl.interval.compared import COMPARED, HELD, ComparedSystem

LARGE_bytes = 64 << 20
RECORD = Path(__file__).parent.parent / "src/ringtree/nccl/interval/compared.py"
_TABLE = re.compile(r"(?<=for system, of, points, factor in \()(.*?)(?=    \)\n)", re.DOTALL)


def factor(system: Any, some: Sequence[Any]) -> float:
    """The factor of the unscaled half widths that holds HELD of a system's points."""
    needed = []
    for point, parts in zip(some, _parts(system, some), strict=True):
        faster, slower = halves(parts, point.ours.time_s)
        off = log(point.measured_s / point.ours.time_s)
        needed.append(off / slower if off > 0 else -off / faster)
    return sorted(needed)[min(int(HELD * len(needed)), len(needed) - 1)]


def intervals(system: Any, some: Sequence[Any], as_new: bool = False) -> list[Interval]:
    """The interval of each point, learnt from other systems; `as_new`: from those of other classes."""
    there = Intervals(system.cluster, system.graphs)
    own = class_of(system.cluster, system.graphs, system.collective)
    without = [system.file, *(c.system for c in COMPARED if as_new and c.of == own)]
    return [there.around(p.ours, system.collective, p.nbytes, _rivals(system, p), without=without) for p in some]


def _parts(system: Any, some: Sequence[Any]) -> Iterable[Any]:
    there = Intervals(system.cluster, system.graphs)
    return [there.parts(p.ours, system.collective, p.nbytes, _rivals(system, p)) for p in some]


def _rivals(system: Any, point: Any) -> Sequence[Any]:
    ours = transport.estimates(system.cluster, system.graphs, system.collective, point.nbytes)
    theirs = tuning.estimates(system.cluster, system.graphs, system.collective, point.nbytes)
    return rivals([e for e in ours if system.considers(e)], [e for e in theirs if system.considers(e)])


@dataclass(frozen=True)
class Coverage:
    """Points inside their intervals, of how many; medians of high over low, of all sizes and from LARGE_bytes; the mean
    factor of the half widths; and high over low of intervals of one width for all that hold as many points."""

    inside: int
    points: int
    width: float
    large_width: float
    scale: float
    constant_width: float


def coverage(by_system: Mapping[str, Sequence[Any]], as_new: bool = False) -> dict[str, Coverage]:
    """The coverage of each system, and of `all of them`; `as_new`: as if no system of its class was ever compared."""
    around = {name: intervals(some[0].system, some, as_new) for name, some in by_system.items()}
    found = {name: _coverage(list(zip(by_system[name], its, strict=True))) for name, its in around.items()}
    everything = [pair for name, its in around.items() for pair in zip(by_system[name], its, strict=True)]
    return {**found, "all of them": _coverage(everything)}


def _coverage(pairs: Sequence[tuple[Any, Interval]]) -> Coverage:
    inside = sum(i.low_s <= p.measured_s <= i.high_s for p, i in pairs)
    off = sorted(abs(log(p.ours.time_s / p.measured_s)) for p, _ in pairs)
    widths = [(p.nbytes, i.high_s / i.low_s) for p, i in pairs]
    large = [width for nbytes, width in widths if nbytes >= LARGE_bytes]
    return Coverage(
        inside,
        len(pairs),
        median(width for _, width in widths),
        median(large) if large else nan,
        mean(i.scale.factor for _, i in pairs),
        exp(2 * off[max(inside, 1) - 1]),
    )


def lines(by_system: Mapping[str, Sequence[Any]]) -> list[str]:
    """The table of coverage and sharpness."""
    out = [f"{'points inside, by what others taught':46}{'inside':>13}{'high/low':>10}{'from 64 MiB':>13}{'scale':>7}"]
    found = coverage(by_system)
    new = coverage(by_system, as_new=True)["all of them"]
    for name, c in (*found.items(), ("if no class was ever compared", new)):
        inside = f"{c.inside} of {c.points}"
        out.append(
            f"{name:40}{c.inside / c.points:>6.0%}{inside:>13}{c.width:>10.2f}{c.large_width:>13.2f}{c.scale:>7.2f}"
        )
    wide = found["all of them"].constant_width
    return [*out, f"intervals of one width for all points that hold as many: high/low {wide:.2f}"]


def sizes(some: Sequence[Any]) -> list[str]:
    """Measured beside the interval, and its widest part."""
    out = [f"{'bytes':>14}{'measured us':>13}{'low us':>11}{'high us':>11}  widest unknown"]
    for p, i in zip(some, intervals(some[0].system, some), strict=True):
        mark = " " if i.low_s <= p.measured_s <= i.high_s else "*"
        widest = i.parts[0].key if i.parts else ""
        out.append(
            f"{p.nbytes:>14}{p.measured_s * 1e6:>13.1f}{i.low_s * 1e6:>11.1f}{i.high_s * 1e6:>11.1f}{mark} {widest}"
        )
    return out


def record(by_system: Mapping[str, Sequence[Any]]) -> tuple[ComparedSystem, ...]:
    """The systems' factors by this code."""
    return tuple(
        ComparedSystem(
            name,
            class_of(some[0].system.cluster, some[0].system.graphs, some[0].system.collective),
            len(some),
            round(factor(some[0].system, some), 2),
        )
        for name, some in by_system.items()
    )


def _written(rows: Iterable[ComparedSystem]) -> str:
    def row(r: ComparedSystem) -> str:
        of = ", ".join(f'"{word}"' for word in (r.of.gpus, r.of.within, r.of.between, r.of.kind))
        return f'        ("{r.system}", ({of}), {r.points}, {r.factor}),\n'

    return "\n" + "".join(map(row, rows))


def main() -> None:
    from benchmarks import validate

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="systems, by a part of their file's name (default all)")
    parser.add_argument("--sizes", action="store_true", help="each size")
    parser.add_argument("--record", action="store_true", help="compute the systems' factors again")
    args = parser.parse_args()
    tables = validate.folder()
    if not tables.is_dir():
        sys.exit(f"no tables at {tables}: set RINGTREE_DATA to the folder that has nccl_tests/")
    chosen = [s for s in validate.SYSTEMS if not args.names or any(name in s.file for name in args.names)]
    by_system = {s.file: validate.points(s, tables) for s in chosen}
    if args.record:
        text = RECORD.read_text(encoding="utf-8")
        RECORD.write_text(_TABLE.sub(lambda _: _written(record(by_system)), text, count=1), encoding="utf-8")
        return
    for name, some in by_system.items() if args.sizes else ():
        print(f"\n{name}: {some[0].system.cluster.name}")
        print("\n".join(sizes(some)))
    print("\n".join(lines(by_system)))


if __name__ == "__main__":
    main()
