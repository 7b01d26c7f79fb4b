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

COLUMN, ROW, HEAD, MARGIN, REPEATS = 150, 34, 40, 110, 80
"""Pixels: of a rank's column, of a row, above the first one, left of them for the phases, right for what repeats."""

MOST_ROWS = 8
"""The most rows of a block that repeats."""

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
.bracket { stroke: #999; fill: none }
"""


@dataclass(frozen=True, slots=True)
class DrawnCall:
    """A call as one rank made it. `key` is the same on all ranks of one call. A message's `ranks` are its source
    and target; a collective's are its group's. `nbytes`: of the whole vector."""

    key: tuple[object, ...]
    name: str
    ranks: tuple[int, ...]
    nbytes: int
    phase: str = ""

    @property
    def message(self) -> bool:
        """Whether the call is a message between two ranks."""
        return self.name == "send"

    def beside(self, other: DrawnCall) -> bool:
        """Whether both fit into one row: alike, and neither drawn over the other."""
        alike = (self.name, self.phase, self.nbytes) == (other.name, other.phase, other.nbytes)
        apart = max(self.ranks) - min(other.ranks), max(other.ranks) - min(self.ranks)
        return alike and (min(apart) < 0 or (self.message and min(apart) == 0))


def step_picture(calls: Sequence[Sequence[DrawnCall]]) -> str:
    """SVG. `calls`: of each rank, those of a step, in its order: collectives and sends where it made them, what it
    received where it had it. ValueError where the ranks' orders are at odds."""
    blocks = folded([row for level in levels(calls) for row in in_rows(level)])
    rows = [row for block, _ in blocks for row in block]
    ranks = len(calls)
    width, height = MARGIN + ranks * COLUMN + REPEATS, HEAD + len(rows) * ROW + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>{STYLE}</style>",
        *(_lane(rank, height) for rank in range(ranks)),
        *_phases([row[0].phase for row in rows], width),
        *(_drawn(call, y) for y, row in enumerate(rows) for call in row),
        *_repeats([(len(block), times) for block, times in blocks], width - REPEATS),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def levels(calls: Sequence[Sequence[DrawnCall]]) -> list[list[DrawnCall]]:
    """Each call once: after all that its ranks had done before it, and as early as that allows."""
    makers: dict[tuple[object, ...], set[int]] = {}
    for rank, mine in enumerate(calls):
        for call in mine:
            if not call.message or call.ranks[0] == rank:
                makers.setdefault(call.key, set()).add(rank)
    waiting = [deque(call for call in mine if call.key in makers) for mine in calls]  # without what came from earlier
    reached = [0] * len(calls)
    found: list[list[DrawnCall]] = []
    made: dict[tuple[object, ...], int] = {}
    while any(waiting):
        heads = {rank: mine[0] for rank, mine in enumerate(waiting) if mine}
        arrived = [rank for rank, call in heads.items() if call.key in made]
        for rank in arrived:
            reached[rank] = max(reached[rank], made[waiting[rank].popleft().key])
        ready = [c for c in heads.values() if all(heads.get(r, c).key == c.key for r in makers[c.key])]
        ready = [c for c in ready if c.key not in made]
        if not ready and not arrived:
            stuck = ", ".join(f"rank {rank} at {call.name}" for rank, call in heads.items())
            raise ValueError(f"the ranks' calls are in no one order: {stuck}")
        for call in {c.key: c for c in ready}.values():
            level = max(reached[r] for r in makers[call.key])
            found += [[] for _ in range(level + 1 - len(found))]
            found[level].append(call)
            made[call.key] = level + 1
    return found


def in_rows(level: Sequence[DrawnCall]) -> list[list[DrawnCall]]:
    """Rows of calls: calls that are alike and have room side by side share a row, the others follow below."""
    rows: list[list[DrawnCall]] = []
    for call in sorted(level, key=lambda call: call.ranks):
        row = next((row for row in rows if all(call.beside(other) for other in row)), None)
        if row is not None:
            row.append(call)
        else:
            rows.append([call])
    return rows


def folded(rows: Sequence[list[DrawnCall]]) -> list[tuple[list[list[DrawnCall]], int]]:
    """Blocks of rows that follow one another and are alike, once, with how often: of up to MOST_ROWS rows, the block
    that spares the most."""
    looks = [[(c.name, c.ranks, c.nbytes, c.phase) for c in row] for row in rows]
    blocks, at = [], 0
    while at < len(rows):
        size, times = max(
            ((size, _times(looks, at, size)) for size in range(1, MOST_ROWS + 1)),
            key=lambda found: ((found[1] - 1) * found[0], -found[0]),
        )
        blocks.append((list(rows[at : at + size]), times))
        at += size * times
    return blocks


def _times(looks: Sequence[object], at: int, size: int) -> int:
    """The number of times that the `size` rows from position `at` on follow one another."""
    times = 1
    while looks[at : at + size] == looks[at + times * size : at + (times + 1) * size]:
        times += 1
    return times


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


def _repeats(blocks: Sequence[tuple[int, int]], x: int) -> list[str]:
    """Brackets right of what stands for more: rows and times of each block."""
    drawn, y = [], HEAD
    for rows, times in blocks:
        if times > 1:
            top, bottom = y + 6, y + rows * ROW - 6
            drawn.append(f'<path class="bracket" d="M{x} {top} h6 V{bottom} h-6"/>')
            drawn.append(f'<text class="faint" x="{x + 12}" y="{(top + bottom) // 2 + 4}">{times} times</text>')
        y += rows * ROW
    return drawn


def _drawn(call: DrawnCall, row: int) -> str:
    y = HEAD + row * ROW + ROW // 2
    text = f"{escape(call.name)} {units.size(call.nbytes)}"
    first, last = _centre(min(call.ranks)), _centre(max(call.ranks))
    if call.message:
        return _arrow(_centre(call.ranks[0]), _centre(call.ranks[1]), y, text)
    colour = next((c for name, c in COLOURS.items() if call.name.startswith(name)), OTHERS)
    if max(call.ranks) - min(call.ranks) >= len(call.ranks):  # not all between take part
        dots = "".join(f'<circle cx="{_centre(r)}" cy="{y}" r="4" fill="{colour}"/>' for r in call.ranks)
        line = f'<line x1="{first}" y1="{y}" x2="{last}" y2="{y}" stroke="{colour}" stroke-width="2"/>'
        return f'<g>{line}{dots}<text class="faint" x="{first + 8}" y="{y - 5}">{text}</text></g>'
    left, right = first - COLUMN // 2 + 6, last + COLUMN // 2 - 6
    band = f'<rect x="{left}" y="{y - 13}" width="{right - left}" height="26" rx="6" fill="{colour}"/>'
    middle = (left + right) // 2
    return f'<g class="band">{band}<text x="{middle}" y="{y + 4}" text-anchor="middle">{text}</text></g>'


def _arrow(source: int, target: int, y: int, text: str) -> str:
    tip = 7 if target > source else -7
    return (
        f'<g class="way"><circle cx="{source}" cy="{y}" r="4"/><line x1="{source}" y1="{y}" x2="{target}" y2="{y}"/>'
        f'<path d="M{target} {y} l{-tip} -5 l0 10 z"/></g>'
        f'<text class="faint" x="{min(source, target) + 12}" y="{y - 5}">{text}</text>'
    )
