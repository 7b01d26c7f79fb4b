"""A schedule as a picture in text: a column a rank, time runs down, every transfer is an arrow.

               0       1       2       3
    round 0    ●───────┼───0──▶│       │
    round 1    ●───0──▶│       ●───0──▶│

`●` sends; `▶` stores what came, `⊕` reduces it. The chunk stands on the arrow: `3`, or `0:4` from:to; `1→0` from the
input's chunk 1 to the output's chunk 0 where these are two buffers, `s2` in scratch. `a⇄b` is an exchange, in which the
left one sends a and the right one b. One line may fan out to many ranks, or in from many.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ringtree.draw.text.labels import chunk_label
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.ir.text import format_head, format_schedule
from ringtree.transform.rows import expand_block

MOST_LINES = 16
"""A round that would take more lines of arrows is written instead, as the schedule's text has it, with its count."""
MARGIN = 11
NARROWEST, USUAL = 6, 8
"""Columns from one rank to the next."""

LEGEND = (
    "● sends, ▶ stores, ⊕ reduces; 3: chunk 3; 0:4: chunks 0 to 3; a⇄b: the left rank sends a, the right rank b;\n"
    "1→0: from the input's chunk 1 to the output's chunk 0, where these are two buffers; "
    "o2, s2: chunk 2 of the output, of scratch"
)


@dataclass(frozen=True, slots=True)
class _Arrow:
    source: int
    target: int
    label: str
    reduce: bool


@dataclass(frozen=True, slots=True)
class _Stroke:
    """The content of one line of the picture: a star of arrows from the hub (`out`) or to it, or an exchange of two
    arrows."""

    hub: int
    spokes: tuple[tuple[int, str], ...]  # rank, label
    reduce: bool
    out: bool = True
    exchange: bool = False

    @property
    def span(self) -> tuple[int, int]:
        ends = [self.hub, *(rank for rank, _ in self.spokes)]
        return min(ends), max(ends)

    @property
    def senders(self) -> set[int]:
        spokes = {rank for rank, _ in self.spokes}
        return {self.hub} | (spokes if self.exchange else set()) if self.out else spokes


def picture(schedule: Schedule, width: int = 100) -> str:
    """The schedule drawn, no line longer than `width` where ranks fit at all; every transfer is drawn, or written.

    A block that repeats with other chunks is drawn once, with a line about the repetition; one in which the ranks move
    is drawn in full. Nothing is left out: what cannot be drawn (copies within a rank, too many arrows for a round, too
    many ranks for the page) is written as the schedule's own text has it. Only the text has the order within a round.
    """
    blocks = [(b, _drawn(schedule, b)) for b in schedule.blocks]
    pitch = _pitch([_arrows(rows) for _, rounds in blocks for rows in rounds], schedule.participants, width)
    if not pitch:
        return f"# {schedule.participants} columns do not fit a page of {width}; as text:\n{schedule}"
    page = _Page(schedule, pitch, width)
    start = 0
    for block, rounds in blocks:
        if block.times > 1 and len(rounds) == block.rounds:
            last = start + block.rounds * block.times - 1
            page.write(f"rounds {start} to {last}: {format_head(block)}")
        for number, rows in enumerate(rounds, start):
            page.round(number, rows)
        start += block.rounds * block.times
    return "\n".join(page.lines)


def _drawn(schedule: Schedule, block: Block) -> list[Transfers]:
    """The rounds of a block that are drawn, each possibly without rows."""
    whole = block.times == 1 or block.shift.source or block.shift.target
    rows = expand_block(schedule, block).rows if whole else block.rows
    rounds = [Transfers.concatenate([])] * (block.rounds * (block.times if whole else 1))
    for part in rows.by_round():
        rounds[int(part.round[0])] = part
    return rounds


def _arrows(rows: Transfers) -> list[_Arrow]:
    """The rows between different ranks."""
    return [a for a in _all(rows) if a is not None]


def _all(rows: Transfers) -> list[_Arrow | None]:
    """Every row's arrow; None for a copy within a rank."""
    names = ("source", "target", "source_buffer", "source_chunk", "target_buffer", "target_chunk", "count", "reduce")
    found: list[_Arrow | None] = []
    for source, target, buffer, chunk, to_buffer, to_chunk, count, reduce in zip(
        *(getattr(rows, name).tolist() for name in names), strict=True
    ):
        label, to = chunk_label(buffer, chunk, count, 0), chunk_label(to_buffer, to_chunk, count, 1)
        plain = label == to and label[0].isdigit()
        arrow = _Arrow(source, target, label if plain else f"{label}→{to}", reduce)
        found.append(None if source == target else arrow)
    return found


def _pitch(rounds: list[list[_Arrow]], columns: int, width: int) -> int:
    """Characters from one column to the next: enough for every label where the page is wide enough; 0 where it has no
    room at all."""
    most = (width - MARGIN - 2) // max(columns - 1, 1)
    if most < NARROWEST:
        return 0
    labels = [a.label for arrows in rounds for a in arrows]
    labels += [f" {s.spokes[0][1]}" for arrows in rounds for s in _exchanges(list(arrows), most - 5)]
    return min(max([USUAL, *(len(label) + 4 for label in labels)]), most)


def _strokes(arrows: list[_Arrow], room: int) -> Iterator[_Stroke]:
    """The arrows as few strokes: fans of one chunk, exchanges whose labels have `room`, fans of many, the rest."""
    left = list(arrows)
    for out, same in ((True, True), (False, True), (None, False), (False, False), (True, False)):
        if out is None:
            yield from _exchanges(left, room)
            continue
        groups = defaultdict[tuple[int, bool, str], list[_Arrow]](list)
        for a in left:
            groups[a.source if out else a.target, a.reduce, a.label if same else ""].append(a)
        for (hub, reduce, _), group in groups.items():
            star = {(a.target if out else a.source): a for a in group}  # a repeated transfer is another stroke
            if len(star) < 2:
                continue
            yield _Stroke(hub, tuple((rank, star[rank].label) for rank in sorted(star)), reduce, out)
            for a in star.values():
                left.remove(a)
    yield from (_Stroke(a.source, ((a.target, a.label),), a.reduce) for a in left)


def _exchanges(left: list[_Arrow], room: int) -> Iterator[_Stroke]:
    """Takes out of `left` what two ranks send each other, first come first served."""
    waiting = defaultdict[tuple[int, int, bool], list[_Arrow]](list)
    for a in list(left):
        back = waiting[a.target, a.source, a.reduce]
        fitting = next((b for b in back if len(_both(a, b)) <= room), None)
        if fitting is None:
            waiting[a.source, a.target, a.reduce].append(a)
            continue
        back.remove(fitting)
        left.remove(fitting)
        left.remove(a)
        low, high = sorted((a.source, a.target))
        yield _Stroke(low, ((high, _both(a, fitting)),), a.reduce, exchange=True)


def _both(a: _Arrow, b: _Arrow) -> str:
    first, second = (a, b) if a.source < b.source else (b, a)
    return first.label if first.label == second.label else f"{first.label}⇄{second.label}"


def _packed(strokes: Iterable[_Stroke]) -> list[list[_Stroke]]:
    """Strokes on as few lines as a first fit finds. Two on a line may meet at a rank, where it is clear whose is what:
    not where both send and one is a fan in."""
    lines: list[list[_Stroke]] = []
    for stroke in sorted(strokes, key=lambda s: s.span):
        for line in lines:
            if all(_apart(stroke, s) for s in line):
                line.append(stroke)
                break
        else:
            lines.append([stroke])
    return lines


def _apart(a: _Stroke, b: _Stroke) -> bool:
    low, high = (a, b) if a.span <= b.span else (b, a)
    if low.span[1] != high.span[0]:
        return low.span[1] < high.span[0]
    return (low.out and high.out) or not low.senders & high.senders


class _Page:
    """Lines of text that grow down the page."""

    def __init__(self, schedule: Schedule, pitch: int, width: int) -> None:
        self._schedule, self._pitch, self._width = schedule, pitch, width
        self.lines = [format_schedule(replace(schedule, blocks=())).removeprefix("schedule ")]
        self.lines.append(self._line({self._at(r): str(r) for r in range(schedule.participants)}))

    def write(self, text: str) -> None:
        """Appends a line across the page."""
        self._space()
        self.lines.append(text)

    def _space(self) -> None:
        self.lines.append(self._line(self._bars()))

    def round(self, number: int, rows: Transfers) -> None:
        """Draws one round, and writes what of it is not drawn."""
        head = f"round {number}" if number < 1000 else f"{number}"
        self._space()
        arrows = _arrows(rows)
        fitting = [a for a in arrows if len(a.label) <= self._pitch - 4]
        lines = _packed(_strokes(fitting, self._pitch - 5))
        drawn = Counter[_Arrow]()
        if 0 < len(lines) <= MOST_LINES:
            drawn.update(fitting)
            for line in lines:
                self.lines.append(self._line(self._bars() | self._ink(line), head))
                head = ""
        written = [a is None or not drawn[a] for a in _all(rows)]
        if any(written) or not len(rows):
            self._write(head, rows, written)

    def _write(self, head: str, rows: Transfers, written: list[bool]) -> None:
        """The rows that `written` marks, as the schedule's text has them."""
        rest = rows.take([i for i, is_so in enumerate(written) if is_so])  # type: ignore[arg-type]
        text = format_schedule(replace(self._schedule, blocks=(Block(replace(rest, round=rest.round * 0)),)))
        families = " ".join(line.strip() for line in text.splitlines()[1:]).removeprefix("once:").strip()
        families = families.removeprefix("round 0:").strip()
        local = bool((rest.source == rest.target).all())
        what = ("copies" if local else "transfers") if len(rest) != 1 else "copy" if local else "transfer"
        line = f"{head:<{MARGIN}}{len(rest)} {what}:"
        for family in families.split("; "):
            if len(line) + len(family) + 2 > self._width:
                self.lines.append(line)
                line = " " * MARGIN
            line += f" {family};"
        self.lines.append(line.rstrip(";") if len(rest) else f"{head:<{MARGIN}}nothing")

    def _at(self, rank: int) -> int:
        return MARGIN + rank * self._pitch

    def _bars(self) -> dict[int, str]:
        return {self._at(r): "│" for r in range(self._schedule.participants)}

    def _line(self, marks: dict[int, str], head: str = "") -> str:
        """A line with these texts at these columns."""
        line = f"{head:<{MARGIN}}"
        for at, text in sorted(marks.items()):
            line = f"{line:<{at}}{text}"
        return line.rstrip()

    def _ink(self, strokes: list[_Stroke]) -> dict[int, str]:
        """The characters of these strokes, by column."""
        ink: dict[int, str] = {}
        senders = set[int]()
        for stroke in strokes:
            low, high = stroke.span
            ink |= dict.fromkeys(range(self._at(low) + 1, self._at(high)), "─")
            ink |= {self._at(r): "│" if not stroke.out and r == stroke.hub else "┼" for r in range(low + 1, high)}
            senders |= stroke.senders
            for rank, label in stroke.spokes:
                right = rank > stroke.hub
                self._head(ink, rank if stroke.out else stroke.hub, right is stroke.out, stroke.reduce)
                if stroke.exchange:
                    self._head(ink, stroke.hub, False, stroke.reduce)
                self._label(ink, rank, right, label, stroke)
        return ink | {self._at(r): "●" for r in senders}

    def _head(self, ink: dict[int, str], rank: int, from_left: bool, reduce: bool) -> None:
        at = self._at(rank) + (-1 if from_left else 1)
        ink[at] = "⊕" if reduce else "▶" if from_left else "◀"

    def _label(self, ink: dict[int, str], rank: int, right: bool, label: str, stroke: _Stroke) -> None:
        """The label in the middle of the space beside the spoke, towards the hub."""
        start = self._at(rank if not right else rank - 1) + 1
        at = start + (self._pitch - 1 - len(label)) // 2
        ink.update(zip(range(at, at + len(label)), label, strict=False))
