"""A trace as a timeline in text: a row a rank, time runs to the right, and what the rank did most shows in each column.

              0 µs     20 µs    40 µs
              ├────────┼────────┼──────
    rank 0    ▒▒▒▒▒▒▒██████·········
              ━━━━━━━━━━━━━╌╌╌╌╌
    rank 1    ▒▒▒▒▒▒▒···········█████
                                ━━━━━

Under a rank's row lies what the critical path has of it: `━` its own work and waiting, `╌` its messages under way, `═`
those to another host.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from ringtree.draw.text.host_links import clock_lines, link_table, on_hosts, row_label
from ringtree.draw.text.lines import Line, TextSpan
from ringtree.draw.text.tables import aligned
from ringtree.ir import units
from ringtree.ir.critical_path import PathStep, critical_path, seconds_by_rank, seconds_by_what
from ringtree.ir.host_clocks import hosts_of
from ringtree.ir.host_links import crossing
from ringtree.ir.own_work import uncovered
from ringtree.ir.trace import Event, Trace

MOST_ROWS = 16
"""The most ranks drawn: those that the critical path is longest on, and the first and the last to end."""
_ENDS = 2
"""The number of ranks drawn that end first, and of those that end last."""
GLYPHS = {Event.COPY: "▒", Event.REDUCE: "█", Event.WAIT: "·", Event.STALL: "×", Event.COMPUTE: "░"}
WORK = {Event.COPY: "copies", Event.REDUCE: "reduces", Event.WAIT: "waits", Event.STALL: "stalls"}
"""The kinds of a rank's work, as the tables head them."""
OWN_WORK = {Event.COMPUTE: "computes"}
"""The further kind of work where the program recorded spans of its own: the rest of their time."""
ON_PATH, UNDER_WAY, BETWEEN_HOSTS = "━", "╌", "═"
_PATH_LEGEND = "critical path: ━ the rank, ╌ its message"

_ROLES = {**{glyph: kind.name.lower() for kind, glyph in GLYPHS.items()}, ON_PATH: "path"}
_ROLES |= {UNDER_WAY: "path", BETWEEN_HOSTS: "path"}


def spans(text: str) -> list[Line]:
    """The lines of a timeline, or of a text that contains timelines, for a terminal to colour."""
    return [
        tuple(TextSpan("".join(run), role) for role, run in groupby(line, lambda glyph: _ROLES.get(glyph, "")))
        for line in text.splitlines()
    ]


def timeline(trace: Trace, width: int = 100, span_s: float | None = None) -> str:
    """The trace drawn, and a table of its ranks below."""
    path = critical_path(trace)
    legend = [legend_of(trace)] if path else []
    lines = [drawing(trace, path, width, span_s), *legend, "", *table(trace, chosen(trace, path))]
    if links := link_table(trace):
        lines += ["", *links]
    return "\n".join(lines)


def drawing(trace: Trace, path: Sequence[PathStep], width: int = 100, span_s: float | None = None) -> str:
    """The trace and its critical path drawn, no line of the rows longer than `width` (at least 40). `span_s`: what the
    width stands for, at least the makespan, so that several traces can be drawn on one scale."""
    if not trace.makespan_s > 0:
        return heading(trace)
    margin = max(len(row_label(trace, rank)) for rank in chosen(trace, path)) + 3
    cells = max(width, 40) - margin
    cell_s = max(span_s or 0.0, trace.makespan_s) / cells
    rows = _rows(trace, path, cell_s, cells, margin)
    return "\n".join([heading(trace), "", *_scale(cell_s, cells, margin), *rows, "", path_line(trace, path)])


def work_of(*traces: Trace) -> dict[Event, str]:
    """The kinds of work in these traces, with their names in tables."""
    return WORK | (OWN_WORK if any((trace.kind == Event.COMPUTE).any() for trace in traces) else {})


def legend_of(*traces: Trace) -> str:
    """The meaning of the glyphs that these traces need."""
    more = {Event.WAIT: " for a message", Event.STALL: " for room"}
    kinds = ", ".join(f"{GLYPHS[kind]} {name}{more.get(kind, '')}" for kind, name in work_of(*traces).items())
    further = ", ═ one to another host" if any(map(on_hosts, traces)) else ""
    return f"{kinds}; {_PATH_LEGEND}{further}"


def heading(trace: Trace) -> str:
    """A trace's ranks, events, duration and source, in a line."""
    facts = trace.facts
    source = " ".join(filter(None, (facts.get("source", ""), _place(facts.get("topology") or facts.get("machine")))))
    parts = [
        units.count(trace.ranks, "rank"),
        units.count(len(trace), "event"),
        units.duration(trace.makespan_s),
        source,
    ]
    line = f"{facts.get('name') or _called(trace) or 'trace'}: {', '.join(filter(None, parts))}"
    if "dropped" in facts:
        line += f"\n{facts['dropped']} later events were not recorded: there was no room for more"
    if "missing" in facts:
        line += f"\nof {facts['missing']} nothing is known"
    return "\n".join([line, *clock_lines(trace)])


def _called(trace: Trace) -> str:
    more = len(trace.calls) - 1
    return trace.calls[0] + (f" and {units.count(more, 'other call')}" if more > 0 else "") if trace.calls else ""


def _place(name: str | None) -> str:
    return f"on {name}" if name else ""


def path_line(trace: Trace, path: Sequence[PathStep]) -> str:
    """The critical path's shares by kind of work and by rank, in a line."""
    total = sum(step.end_s - step.start_s for step in path)
    shares = {name: seconds / total for name, seconds in seconds_by_what(path).items()}
    names = {"idle": "idle (nothing recorded)"}
    if on_hosts(trace) and "message" in shares:
        away = crossing(trace)
        away_s = sum(step.end_s - step.start_s for step in path if step.what == "message" and away[step.event])
        names["message"] = f"message (between hosts {away_s / total:.0%})"
    what = ", ".join(f"{names.get(name, name)} {share:.0%}" for name, share in shares.items() if share >= 0.005)
    by_rank = list(seconds_by_rank(path).items())
    on = ", ".join(f"{rank} ({seconds / total:.0%})" for rank, seconds in by_rank[:4])
    more = f" and {len(by_rank) - 4} more" if len(by_rank) > 4 else ""
    return f"critical path: {what}; on rank{'s' * (len(by_rank) > 1)} {on}{more}"


def chosen(trace: Trace, path: Sequence[PathStep]) -> list[int]:
    """The ranks that are drawn, in order."""
    if trace.ranks <= MOST_ROWS:
        return list(range(trace.ranks))
    end_s = np.full(trace.ranks, -np.inf)
    np.maximum.at(end_s, trace.rank, trace.end_s)
    by_end = np.argsort(end_s, kind="stable").tolist()
    wanted = [*by_end[:_ENDS], *by_end[-_ENDS:], *seconds_by_rank(path), *by_end]
    return sorted(list(dict.fromkeys(wanted))[:MOST_ROWS])


def _scale(cell_s: float, cells: int, margin: int) -> list[str]:
    """The ticks, and above each its time."""
    least = 10 * cell_s
    power = 10.0 ** np.floor(np.log10(least))
    step_s = float(next(m * power for m in (1, 2, 5, 10, 20) if m * power >= least))
    unit = units.time_unit(step_s * (cells * cell_s // step_s or 1))
    ticks, names = ["─"] * cells, [" "] * (cells + 12)
    for k in range(int(cells * cell_s / step_s) + 1):
        at = round(k * step_s / cell_s)
        if at >= cells:
            break
        ticks[at] = "┼" if k else "├"
        name = f"{k * step_s / units.TIMES[unit]:.4g} {unit}"
        if at + len(name) <= cells:
            names[at : at + len(name)] = name
    return [" " * margin + "".join(line).rstrip() for line in (names, ticks)]


def _rows(trace: Trace, path: Sequence[PathStep], cell_s: float, cells: int, margin: int) -> list[str]:
    ranks = chosen(trace, path)
    drawn, marks = _shades(trace, ranks, cell_s, cells), _marks(trace, path, cell_s, cells)
    lines: list[str] = []
    last = -1
    for rank, glyphs in zip(ranks, drawn, strict=True):
        lines += _left_out(rank - last - 1)
        lines.append(f"{row_label(trace, rank):<{margin}}{glyphs}".rstrip())
        if rank in marks:
            lines.append(" " * margin + marks[rank].rstrip())
        last = rank
    return lines + _left_out(trace.ranks - last - 1)


def _left_out(ranks: int) -> list[str]:
    return [f"⋮ {units.count(ranks, 'rank')}"] if ranks else []


def _shades(trace: Trace, ranks: list[int], cell_s: float, cells: int) -> list[str]:
    """A row of glyphs for each of the ranks: in each cell what took the most of it, or nothing where most is idle."""
    trace, _ = uncovered(trace)
    row = np.full(trace.ranks, -1)
    row[ranks] = np.arange(len(ranks))
    taken = np.flatnonzero((trace.kind != Event.SEND) & (row[trace.rank] >= 0))
    where = row[trace.rank[taken]], trace.kind[taken]
    zero_s = trace.start_s.min()
    start, end = ((t[taken] - zero_s) / cell_s for t in (trace.start_s, trace.end_s))
    first = np.minimum(start.astype(np.int64), cells - 1)
    last = np.minimum(end.astype(np.int64), cells - 1)
    # An event fills the cells between its ends: as a step up after its first and down at its last, summed up below.
    # The cells of its ends it fills in part.
    steps = np.zeros((len(ranks), len(Event), cells + 1))
    np.add.at(steps, (*where, first), 1.0)
    np.add.at(steps, (*where, last), -1.0)
    share = np.cumsum(steps[..., :-1], axis=-1)
    np.add.at(share, (*where, first), first - start)
    np.add.at(share, (*where, last), end - last)
    glyphs = np.array([GLYPHS.get(kind, " ") for kind in Event] + [" "])
    most = np.where(share.sum(axis=1) >= 0.5, share.argmax(axis=1), len(Event))
    return ["".join(line) for line in glyphs[most].tolist()]


def _marks(trace: Trace, path: Sequence[PathStep], cell_s: float, cells: int) -> dict[int, str]:
    """The line under each rank that the path touches."""
    zero_s, away = trace.start_s.min(initial=np.inf), crossing(trace)
    found: dict[int, list[str]] = {}
    for step in sorted(path, key=lambda s: s.what != "message"):  # work covers messages where both fall into one cell
        line = found.setdefault(step.rank, [" "] * cells)
        first = min(int((step.start_s - zero_s) / cell_s), cells - 1)
        last = max(first + 1, min(round((step.end_s - zero_s) / cell_s), cells))
        glyph = ON_PATH if step.what != "message" else BETWEEN_HOSTS if away[step.event] else UNDER_WAY
        line[first:last] = glyph * (last - first)
    return {rank: "".join(line) for rank, line in found.items()}


def table(trace: Trace, ranks: Sequence[int]) -> list[str]:
    """A row for each of the ranks: its seconds by kind of work, its end, and the bytes it sent and received."""
    seconds, (sent, received), work = uncovered(trace)[0].kind_seconds(), trace.traffic_nbytes(), work_of(trace)
    end_s = np.zeros(trace.ranks)
    np.maximum.at(end_s, trace.rank, trace.end_s - trace.start_s.min(initial=np.inf))
    hosts = hosts_of(trace).tolist()
    host = ["host"] if on_hosts(trace) else []
    rows = [["rank", *host, *work.values(), "ends at", "sent", "received"]]
    for r in ranks:
        times = (*seconds[r, list(work)].tolist(), float(end_s[r]))
        sizes = (int(sent[r]), int(received[r]))
        rows.append([str(r), *(str(hosts[r]) for _ in host), *map(units.duration, times), *map(units.size, sizes)])
    return aligned(rows)
