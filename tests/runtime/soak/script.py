"""The script of ranks, drawn from a seed: every rank draws the same one, so that none has to ask another.

A script comes in chapters of CALLS steps. A chapter has a mix, which decides how often each step comes; what it opens
is closed at its end, so that a chapter can be read, and begun with, by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from tests.runtime.soak.values import DTYPES, MOST, MOST_OTHERS, OFFSETS, REDUCTIONS, most

CALLS = 25
"""Steps of a chapter."""
MOST_GROUPS = 3
"""Open at once, beside the world."""
SPLITS = ("parity", "halves", "reversed", "without the last", "duplicate", "pair")
COLLECTIVES = (
    "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "gather", "scatter", "all_to_all", "barrier",
    "scan", "exscan",
)  # fmt: skip
UNEVEN = ("reduce_scatter", "all_gather", "gather", "scatter", "all_to_all")
IN_TURN = ("all_reduce", "broadcast", "all_gather", "reduce")
PLACES = ("new", "out", "in place", "symmetric", "symmetric in place")
STYLES = ("blocking", "batch", "non-blocking", "in a circle", "objects")


@dataclass(frozen=True, slots=True)
class Call:
    """A collective of `count` elements in the whole vector; `group` 0 is the world. `cuts` (0: even) decides how blocks
    are cut; `later`: asynchronous, and finished some steps later."""

    collective: str
    group: int
    count: int
    offset: int
    dtype: str = "float32"
    op: str = "sum"
    root: int = 0
    place: str = "new"
    cuts: int = 0
    later: bool = False


@dataclass(frozen=True, slots=True)
class ScriptedMessage:
    """One message; ranks are those of the group, modulo its size."""

    source: int
    target: int
    tag: int
    count: int
    offset: int
    dtype: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """Messages between pairs of ranks. `order` (0: as listed) shuffles what is received; `anyone`: from any source."""

    style: str
    group: int
    messages: tuple[ScriptedMessage, ...]
    order: int
    anyone: bool


@dataclass(frozen=True, slots=True)
class Window:
    """Every rank puts to the rank `shift` further, or gets from it, and signals the end."""

    how: str
    shift: int
    count: int
    offset: int
    index: int


@dataclass(frozen=True, slots=True)
class Open:
    """A new group, by `how`."""

    how: str


@dataclass(frozen=True, slots=True)
class Close:
    """Closes a group, if that is open; the groups after it move up."""

    group: int


Step = Call | Exchange | Window | Open | Close

MIXES = {
    # weights of: calls in turn, any call, messages, windows, groups; how many calls are finished later
    "turns": ((1, 0, 0, 0, 0), 0.0),
    "collectives": ((1, 9, 0, 0, 0), 0.0),
    "messages": ((1, 2, 5, 2, 0), 0.1),
    "asynchronous": ((0, 8, 1, 1, 0), 0.6),
    "groups": ((1, 6, 2, 1, 2), 0.2),
}
"""`turns`: four collectives in turn, float32, at the pace of a program that does nothing else."""
SHARES = {"turns": 4, "collectives": 3, "messages": 2, "asynchronous": 2, "groups": 1}
"""How many chapters of which mix there are."""


def mix_of(seed: int, chapter: int, wanted: str = "all") -> str:
    """The chapter's mix; the first chapters have each mix once, so that all that is set up once is set up early."""
    if wanted != "all":
        return wanted
    if chapter < len(MIXES):
        return list(MIXES)[chapter]
    return Random(f"{seed} {chapter} mix").choices(list(SHARES), list(SHARES.values()))[0]


def steps(seed: int, chapter: int, mix: str) -> Iterator[Step]:
    """The steps of a chapter."""
    draw = Random(f"{seed} {chapter}")
    weights, later = MIXES[mix]
    kinds = draw.choices(("turn", "call", "exchange", "window", "group"), weights, k=CALLS)
    if weights[-1]:
        kinds[0] = "group"
    for number, kind in enumerate(kinds):
        if kind == "turn":
            yield _turn(draw, number)
        elif kind == "call":
            yield _call(draw, draw.random() < later, bool(weights[-1]))
        elif kind == "exchange":
            yield _exchange(draw, chapter * CALLS + number, bool(weights[-1]))
        elif kind == "window":
            how = draw.choice(("put", "get"))
            yield Window(how, draw.randrange(1, 60), _count(draw, MOST_OTHERS), _offset(draw), draw.randrange(8))
        else:
            opens = number == 0 or draw.random() < 0.6
            yield Open(draw.choice(SPLITS)) if opens else Close(draw.randint(1, MOST_GROUPS))


def _turn(draw: Random, number: int) -> Call:
    place = "new" if draw.random() < 0.5 else "out"
    root = draw.randrange(60)
    return Call(IN_TURN[number % 4], 0, draw.randint(0, MOST), _offset(draw), root=root, place=place)


def _call(draw: Random, later: bool, grouped: bool) -> Call:
    collective = draw.choice(COLLECTIVES)
    dtype = "float32" if draw.random() < 0.6 else draw.choice(DTYPES)
    cuts = draw.getrandbits(32) if collective in UNEVEN and draw.random() < 0.25 else 0
    return Call(
        collective,
        draw.randint(0, MOST_GROUPS) if grouped else 0,
        _count(draw, most(dtype)),
        _offset(draw),
        dtype,
        draw.choice(tuple(REDUCTIONS)),
        draw.randrange(60),
        draw.choice(PLACES),
        cuts,
        later,
    )


def _exchange(draw: Random, number: int, grouped: bool) -> Exchange:
    style = draw.choice(STYLES)
    first = number * 16 % (1 << 31)
    apart = draw.random() < 0.7  # else all have one tag, and keep their order
    messages = []
    for i in range(draw.randint(1, 8)):
        source = draw.randrange(60)
        target = source + draw.randint(1, 59)
        dtype = "float32" if draw.random() < 0.7 else draw.choice(DTYPES)
        count = _count(draw, MOST_OTHERS if style != "objects" else 2000)
        messages.append(ScriptedMessage(source, target, first + i * apart, count, _offset(draw), dtype))
    anyone = apart and draw.random() < 0.3
    group = draw.randint(0, MOST_GROUPS) if grouped else 0
    return Exchange(style, group, tuple(messages), draw.getrandbits(32) if apart else 0, anyone)


def _count(draw: Random, most: int) -> int:
    """A count of any size, as often short as long."""
    kind = draw.random()
    if kind < 0.1:
        return draw.randint(0, 8)
    if kind < 0.6:
        return int(most ** draw.random())
    return draw.randint(0, most)


def _offset(draw: Random) -> int:
    return draw.randrange(OFFSETS)
