"""The frames of the view round by round, laid out alike: one round's sends, and the buffers after it as a grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from ringtree.draw.text.buffers import GridCell, GridColumn, gap
from ringtree.draw.text.labels import spread
from ringtree.draw.text.lines import Line, TextSpan

TITLE = 11
ABOVE = -2
"""As the width of the column of sends: they stand above."""


class Frame(NamedTuple):
    """The picture of one round; number -1 is the start. `sends` by rank, `columns` with a cell per shown rank."""

    number: int
    sends: dict[int, str]
    columns: list[GridColumn]

    @property
    def says_anything(self) -> bool:
        """Whether a message is sent in this round, or any buffer holds a value."""
        return bool(self.sends) or any(cell.text not in ("", "·") for column in self.columns for cell in column.cells)


class Arrangement:
    """The sends stand beside the buffers and the title before both; above where these need the room. Columns that have
    none even so are left out."""

    def __init__(self, ranks: Sequence[int], frames: Sequence[Frame], width: int) -> None:
        self.ranks, self.width = ranks, width
        alike = all([c.head for c in f.columns] == [c.head for c in frames[0].columns] for f in frames)
        self.cell = max((_wide(c) for f in frames for c in f.columns), default=1) if alike else 0
        widths = [self._widths(f.columns) for f in frames]
        sent = max((len(text) for frame in frames for text in frame.sends.values()), default=0)
        for apart, (margin, beside) in product((2, 1), ((TITLE, True), (0, True), (0, False))):
            self._arrange(margin, max(sent, len("sends")) if beside else ABOVE)
            if max(sum(w) + apart * len(w) for w in widths) <= self.room:
                return
        if sent <= width // 3:
            self._arrange(0, max(sent, len("sends")))

    def _arrange(self, margin: int, sent: int) -> None:
        """Sets the columns' widths. `sent`: that of the sends; `room` is left for buffers."""
        self.margin, self.sent = margin, sent
        self.rank = max(len("rank") if sent >= 0 else 1, len(str(self.ranks[-1])))
        self.room = self.width - margin - self.rank - sent - 4

    def frame(self, frame: Frame) -> Iterator[Line]:
        """The round's lines."""
        title = "start" if frame.number < 0 else f"round {frame.number}"
        columns = self._fitting(frame.columns)
        widths = self._widths(columns)
        apart = 2 if sum(widths) + 2 * len(widths) <= self.room else 1
        if self.margin < TITLE or len(title) >= TITLE:
            yield from self._above(title, frame.sends if self.sent < 0 else {})
            title = ""
        heads = "".join(c.head.rjust(w + apart) for c, w in zip(columns, widths, strict=True))
        left = f"{title:<{self.margin}}"
        yield (
            TextSpan(left, "head"),
            TextSpan(f"{'rank' if self.sent >= 0 else '':>{self.rank}}{self._sends('sends')}{heads}", "faint"),
        )
        for row, rank in enumerate(self.ranks):
            if row and rank > self.ranks[row - 1] + 1:
                yield self._gap(self.ranks[row - 1] + 1, rank - 1)
            text = f"{'':{self.margin}}{rank:>{self.rank}}{self._sends(frame.sends.get(rank, ''))}"
            cells = (_cell(c.cells[row], w + apart) for c, w in zip(columns, widths, strict=True))
            yield (TextSpan(text), *(span for spans in cells for span in spans))

    def _sends(self, transfers: str) -> str:
        return f"  {transfers:<{self.sent}} │" if self.sent >= 0 else " │"

    def _above(self, title: str, transfers: dict[int, str]) -> Iterator[Line]:
        """The title, and the sends on as few lines as they have room on."""
        texts = [f"{rank}: {transfers[rank]}" for rank in self.ranks if rank in transfers]
        wide = max(map(len, texts), default=0) + 3
        many = max((self.width - TITLE) // wide, 1)
        for at in range(0, max(len(texts), 1), many):
            line = "".join(text.ljust(wide) for text in texts[at : at + many])
            yield TextSpan(f"{'' if at else title:<{TITLE}}", "head"), TextSpan(line.rstrip())

    def _gap(self, first: int, last: int) -> Line:
        which = f"rank {first}" if first == last else f"ranks {first} to {last}"
        return (TextSpan(f"{'':{self.margin}}{'…':>{self.rank}}  {which}", "faint"),)

    def _widths(self, columns: Sequence[GridColumn]) -> list[int]:
        return [max(self.cell, _wide(c)) for c in columns]

    def _fitting(self, columns: Sequence[GridColumn]) -> list[GridColumn]:
        """Columns spread over all of them, as many as have room."""
        shown = list(columns)
        room, apart = len(shown), 1
        while room > 3 and sum(self._widths(shown)) + apart * len(shown) > self.room:
            room, apart = room - 1, 2
            shown, before = list[GridColumn](), -1
            for at in spread(len(columns), room):
                left_out = at > before + 1 or columns[at].head == "…"
                if left_out and shown[-1].head != "…":
                    shown.append(gap(len(self.ranks)))
                if columns[at].head != "…":
                    shown.append(columns[at])
                before = at
        return shown


def _wide(column: GridColumn) -> int:
    return max(len(column.head), *(len(cell.text) for cell in column.cells))


def _cell(cell: GridCell, width: int) -> tuple[TextSpan, ...]:
    text = f"*{cell.text}" if cell.new else cell.text
    role = " ".join(word for word, is_so in (("new", cell.new), ("kept", cell.kept)) if is_so)
    role = role or ("faint" if cell.text in ("·", "…") else "")
    return (TextSpan(" " * (width - len(text))), TextSpan(text, role))
