"""The calls of a training step as a picture: a column a rank, time runs down, a band a collective, an arrow a message.

    rank 0   rank 1   rank 2   rank 3
    ┌─────────────┐   ┌─────────────┐
    │ all_reduce  │   │ all_reduce  │      forward
    └─────────────┘   └─────────────┘
       ●──────────────────▶                backward

The picture is SVG, light or dark as its reader's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from ringtree.ir import units

COLUMN, ROW, HEAD, MARGIN = 150, 34, 40, 110
"""Pixels: of a rank's column, of a row, above the first one, left of them for the phases."""

COLOURS = {
    "all_reduce": "#0072b2",
    "all_gather": "#009e73",
    "reduce_scatter": "#d55e00",
    "all_to_all": "#cc79a7",
    "broadcast": "#e69f00",
}
"""Okabe and Ito's, as everywhere here; what is not named is grey."""
OTHERS = "#7f7f7f"

STYLE = """
text { font: 12px system-ui, sans-serif; fill: #222 } .faint { fill: #777 } .band text { fill: #fff }
.lane { stroke: #bbb } .way { stroke: #56b4e9; stroke-width: 2; fill: #56b4e9 } .rule { stroke: #ddd }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .faint { fill: #999 } .lane, .rule { stroke: #444 } }
"""


@dataclass(frozen=True, slots=True)
class Call:
    """A call as one rank made it. `key` is the same on all ranks of one call. A message's `ranks` are who sends it and
    who receives it; a collective's are its group's. `nbytes`: of the whole vector."""

    key: tuple[object, ...]
    name: str
    ranks: tuple[int, ...]
    nbytes: int
    phase: str = ""

    @property
    def message(self) -> bool:
        return self.name == "send"

    def like(self, other: Call) -> bool:
        """Whether both may be in one row."""
        alike = (self.name, self.phase, self.nbytes) == (other.name, other.phase, other.nbytes)
        return alike and not {*self.ranks} & {*other.ranks}


def step_picture(calls: Sequence[Sequence[Call]]) -> str:
    """SVG. `calls`: of each rank, those it made in a step, in its order; of a message, the sender's only."""
    rows = folded(in_rows(in_order(calls)))
    ranks = len(calls)
    width, height = MARGIN + ranks * COLUMN + 20, HEAD + len(rows) * ROW + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>{STYLE}</style>",
        *(_lane(rank, height) for rank in range(ranks)),
        *_phases([row[0].phase for row, _ in rows], width),
        *(_drawn(call, y, times) for y, (row, times) in enumerate(rows) for call in row),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def in_order(calls: Sequence[Sequence[Call]]) -> list[Call]:
    """Each call once, in an order that keeps every rank's. ValueError where there is none: the ranks differ."""
    callers: dict[tuple[object, ...], set[int]] = {}
    for rank, mine in enumerate(calls):
        for call in mine:
            callers.setdefault(call.key, set()).add(rank)
    waiting = [deque(mine) for mine in calls]
    ordered: list[Call] = []
    while any(waiting):
        heads = {rank: mine[0] for rank, mine in enumerate(waiting) if mine}
        ready = next((c for c in heads.values() if all(heads[r].key == c.key for r in callers[c.key])), None)
        if ready is None:
            stuck = ", ".join(f"rank {rank} at {call.name}" for rank, call in heads.items())
            raise ValueError(f"the ranks' calls are in no one order: {stuck}")
        ordered.append(ready)
        for rank in callers[ready.key]:
            waiting[rank].popleft()
    return ordered


def in_rows(ordered: Sequence[Call]) -> list[list[Call]]:
    """Calls that are alike and of different ranks side by side, as far up as the order lets them."""
    rows: list[list[Call]] = []
    for call in ordered:
        at = len(rows)
        while at and not any({*call.ranks} & {*above.ranks} for above in rows[at - 1]):
            at -= 1
        fit = next((row for row in rows[at:] if all(call.like(other) for other in row)), None)
        if fit is not None:
            fit.append(call)
        else:
            rows.append([call])
    return [sorted(row, key=lambda call: call.ranks) for row in rows]


def folded(rows: Sequence[list[Call]]) -> list[tuple[list[Call], int]]:
    """Rows that are alike and follow one another once, with how often."""

    def look(row: list[Call]) -> list[tuple[object, ...]]:
        return [(c.name, c.ranks, c.nbytes, c.phase) for c in row]

    return [(alike[0], len(alike)) for alike in (list(group) for _, group in groupby(rows, look))]


def _centre(rank: int) -> int:
    return MARGIN + rank * COLUMN + COLUMN // 2


def _lane(rank: int, height: int) -> str:
    x = _centre(rank)
    return (
        f'<line class="lane" x1="{x}" y1="{HEAD - 8}" x2="{x}" y2="{height}"/>'
        f'<text x="{x}" y="{HEAD - 18}" text-anchor="middle">rank {rank}</text>'
    )


def _phases(phases: Sequence[str], width: int) -> list[str]:
    drawn, y = [], HEAD
    for phase, rows in ((phase, len(list(group))) for phase, group in groupby(phases)):
        drawn.append(f'<line class="rule" x1="8" y1="{y}" x2="{width - 8}" y2="{y}"/>')
        drawn.append(f'<text class="faint" x="12" y="{y + 20}">{escape(phase)}</text>')
        y += rows * ROW
    return drawn


def _drawn(call: Call, row: int, times: int) -> str:
    y = HEAD + row * ROW + ROW // 2
    size = units.size(call.nbytes) + (f", {times} times" if times > 1 else "")
    if call.message:
        return _arrow(_centre(call.ranks[0]), _centre(call.ranks[1]), y, size)
    left, right = _centre(min(call.ranks)) - COLUMN // 2 + 6, _centre(max(call.ranks)) + COLUMN // 2 - 6
    solid = max(call.ranks) - min(call.ranks) + 1 == len(call.ranks)
    colour = next((c for name, c in COLOURS.items() if call.name.startswith(name)), OTHERS)
    dots = "".join(f'<circle cx="{_centre(r)}" cy="{y}" r="4" fill="{colour}"/>' for r in call.ranks)
    band = f'<rect x="{left}" y="{y - 13}" width="{right - left}" height="26" rx="6" fill="{colour}"/>'
    line = (
        f'<line x1="{_centre(min(call.ranks))}" y1="{y}" x2="{_centre(max(call.ranks))}" y2="{y}" stroke="{colour}"/>'
    )
    text = f"{escape(call.name)} {size}"
    middle = (left + right) // 2
    if solid:
        return f'<g class="band">{band}<text x="{middle}" y="{y + 4}" text-anchor="middle">{text}</text></g>'
    return f'<g>{line}{dots}<text class="faint" x="{_centre(min(call.ranks)) + 8}" y="{y - 5}">{text}</text></g>'


def _arrow(source: int, target: int, y: int, text: str) -> str:
    tip = 7 if target > source else -7
    return (
        f'<g class="way"><circle cx="{source}" cy="{y}" r="4"/><line x1="{source}" y1="{y}" x2="{target}" y2="{y}"/>'
        f'<path d="M{target} {y} l{-tip} -5 l0 10 z"/></g>'
        f'<text class="faint" x="{min(source, target) + 12}" y="{y - 5}">send {text}</text>'
    )
