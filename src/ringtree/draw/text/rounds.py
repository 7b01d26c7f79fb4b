"""A schedule round by round: what each rank sends, and its buffer filling with contributions.

    round 0  rank  sends     0    1    2    3
                0  3 +> 1    0    0    0   *23

The buffers are what the symbolic play of the schedule leaves there. Repeated rounds are shown once, with the
repetition; of many ranks, chunks or rounds the first, some in the middle and the last are shown, and a line names the
others.
"""

from __future__ import annotations

import re

import numpy as np

from ringtree.draw.text.branches import branches
from ringtree.draw.text.buffers import Grid
from ringtree.draw.text.frames import Arrangement, Frame
from ringtree.draw.text.labels import spread
from ringtree.draw.text.lines import Line, TextSpan
from ringtree.draw.text.repeats import Repeat, repeats
from ringtree.draw.text.sends import sends
from ringtree.draw.trees import few, trees
from ringtree.ir.contents import Contents, Promised
from ringtree.ir.contents import rounds as play
from ringtree.ir.moves import CellLayout, Moves
from ringtree.ir.schedule import Schedule, Transfers

MOST_RANKS = 16
MOST_LINES = 240
"""The most lines of rounds, about; each round is a line a rank."""
MOST_WORDS = 1 << 24
"""No more memory than this many words of 8 bytes is taken to play a schedule for a view."""
MOST_TRANSFERS = 1 << 20
LEAST_ROUNDS = 8
SENDS_ROOM = 44
"""Characters for the transfers that a rank sends in a round, about."""
NOTHING_YET = (TextSpan("start      ", "head"), TextSpan("all outputs are empty", "faint"))


def rounds(schedule: Schedule, width: int = 100) -> list[Line]:
    """The view, in lines of at most about `width` characters. Cost: as verify.prove's; a
    schedule that is too large to be played for a view gets a line with the reason."""
    s = schedule
    lines: list[Line] = [(TextSpan(_title(s), "head"),)]
    layout = CellLayout.of(s)
    if _too_large(s, layout):
        return [
            *lines,
            (TextSpan(f"too large for this view: {s.transfers:,} transfers between {layout.cells:,} chunks"),),
        ]
    moves = Moves.of(s)
    found = trees(s)
    if few(found):
        lines += [(), *((TextSpan(line),) for line in branches(found, width))]
    repeated = repeats(s)
    frames, end = _played(s, moves, repeated)
    arrangement = Arrangement(spread(s.participants, MOST_RANKS), frames, width)
    lines += [(), *((TextSpan(line, "faint"),) for line in _legend(s, frames, width))]
    shown = {frame.number for frame in frames}
    before = -1
    for frame in frames:
        if frame.number > before + 1:
            lines += [(), (TextSpan(_left_out(before + 1, frame.number - 1, repeated, shown), "head"),)]
        lines += [(), *arrangement.frame(frame)] if frame.says_anything else [(), NOTHING_YET]
        before = frame.number
    return [*lines, (), _verdict(s, layout, end)]


def unkept(schedule: Schedule) -> str:
    """The line that the view ends with where data is missing at the end; empty where none is. A schedule that is too
    large to be played for a view gets a line that sends to its proof."""
    layout = CellLayout.of(schedule)
    if _too_large(schedule, layout):
        return "too large to be played here: `ringtree prove` checks its data"
    end = Contents.at_start(schedule, layout)
    for _ in play(Moves.of(schedule), end, schedule.promise.repeats):
        pass
    (verdict,) = _verdict(schedule, layout, end)
    return verdict.text if verdict.role == "wrong" else ""


def _too_large(s: Schedule, layout: CellLayout) -> bool:
    return s.transfers > MOST_TRANSFERS or layout.cells * (1 + s.promise.reduces * s.ranks // 64) > MOST_WORDS


def _title(s: Schedule) -> str:
    facts = [(s.ranks, "rank"), (s.chunks, "chunk"), (s.rounds, "round"), (s.transfers, "transfer")]
    facts += [(s.switches, "switch")] if s.switches else []
    counts = ", ".join(f"{n:,} {what}{('' if n == 1 else 'es' if what == 'switch' else 's')}" for n, what in facts)
    return f"{s.name} {s.collective}{'' if s.root is None else f' from root {s.root}'}: {counts}"


def _played(s: Schedule, moves: Moves, repeated: list[Repeat]) -> tuple[list[Frame], Contents]:
    """The rounds that are shown, and what there is after the last."""
    shown = spread(s.participants, MOST_RANKS)
    grid = Grid.of(s, moves.layout, shown)
    room = max(LEAST_ROUNDS, MOST_LINES // (len(shown) + 2))
    candidates = [number for repeat in repeated for number in repeat.shown]
    numbers = {candidates[i] for i in spread(len(candidates), room)}
    contents = Contents.at_start(s, moves.layout)
    nothing = np.zeros(0, dtype=np.int64)
    frames = [Frame(-1, {}, grid.columns(contents, nothing))]
    by_round = {int(rows.round[0]): rows for rows in moves.rows.by_round()}
    played = play(moves, contents, s.promise.repeats)
    for number in range(s.rounds):
        rows = by_round.get(number)
        written = nothing
        if rows is not None:
            part = next(played)
            written = moves.target[part.first : part.last]
        if number in numbers:
            seen = rows.take(np.isin(rows.source, shown)) if rows is not None else Transfers.concatenate([])
            frames.append(Frame(number, sends(seen, s.participants, SENDS_ROOM), grid.columns(contents, written)))
    return frames, contents


def _left_out(first: int, last: int, repeated: list[Repeat], shown: set[int]) -> str:
    """The line that replaces these rounds."""
    rounds = f"round {first}" if first == last else f"rounds {first} to {last}"
    for r in repeated:
        if r.start < first and last < r.stop and shown.issuperset(range(r.start, r.start + r.period)):
            same = "the same" if r.period == 1 else f"the same {r.period} rounds repeated"
            return f"{rounds}: {same}{f', {r.moves} each time' if r.moves else ''}"
    return f"{rounds} are left out" if last > first else f"{rounds} is left out"


def _legend(s: Schedule, frames: list[Frame], width: int) -> list[str]:
    """The meaning of each notation that the frames use."""
    cells = [cell.text for frame in frames for column in frame.columns for cell in column.cells]
    heads = [column.head for frame in frames for column in frame.columns]
    sent = " ".join(text for frame in frames for text in frame.sends.values())
    notes = (
        ("+>" in sent, "0 +> 1: chunk 0 is added to rank 1's"),
        ("->" in sent, "0 -> 1: chunk 0 is stored at rank 1"),
        (any(":" in text for text in (sent, *heads)), "0:4: chunks 0 to 3"),
        ("[" in sent, "[2]: into chunk 2"),
        (bool(re.search(r"\bo\d", sent)), "o2: chunk 2 of the output"),
        (bool(re.search(r"\bs\d", sent)), "s2: chunk 2 of scratch"),
        (True, "a cell lists the ranks whose data this chunk contains" if s.promise.reduces else
               "a cell names the rank whose data this chunk is"),
        ("·" in cells, "·: empty"),
        (any(cell.new for frame in frames for column in frame.columns for cell in column.cells),
         "*: changed this round"),
        (any(map(_goes_round, cells)), f"{s.ranks - 2}-1: ranks {s.ranks - 2} to {s.ranks - 1}, then 0 to 1"),
        (any("/" in text for text in cells), f"{s.ranks // 2}/{s.ranks}: data of {s.ranks // 2} of {s.ranks} ranks"),
        (any("." in text for text in cells), "0.2: rank 0's chunk 2"),
        (not s.in_place, "inputs do not change and are not shown"),
    )  # fmt: skip
    lines = [""]
    for note in (note for used, note in notes if used):
        if len(lines[-1]) + len(note) + 2 > width:
            lines.append("")
        lines[-1] += f"{'; ' if lines[-1] else ''}{note}"
    return lines


def _goes_round(text: str) -> bool:
    return any(int(a) > int(b) for a, b in re.findall(r"(\d+)-(\d+)", text))


def _verdict(s: Schedule, layout: CellLayout, end: Contents) -> Line:
    """A line that states whether every rank has the postcondition's contents."""
    promised = Promised.of(s, layout)
    kept = promised.kept(end)
    if kept.all():
        return (TextSpan(f"postcondition of {s.collective} holds on every rank", "kept"),)
    wrong = np.flatnonzero(~kept)
    rank, chunk = int(promised.rank[wrong[0]]), int(promised.position[wrong[0]])
    more = f" and in {len(wrong) - 1} other chunks" if len(wrong) > 1 else ""
    return (
        TextSpan(f"NOT DONE: rank {rank} violates the postcondition of {s.collective} in chunk {chunk}{more}", "wrong"),
    )
