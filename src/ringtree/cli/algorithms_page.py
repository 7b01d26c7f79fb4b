"""docs/algorithms.md: every algorithm with its cost, source, use and picture, from the registry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import fill

from ringtree.algorithms import Algorithm
from ringtree.draw.text.picture import LEGEND, picture
from ringtree.draw.text.tables import markdown
from ringtree.ir.collective import COLLECTIVES
from ringtree.plan.properties import order
from ringtree.verify import ReductionOrder

PICTURED_RANKS = (8, 6, 5, 4)
"""The most of these whose picture has at most PICTURE_LINES."""
PICTURE_LINES = 26

ORDERS = {ReductionOrder.ANY: "in any order", ReductionOrder.ASSOCIATIVE: "neighbours", ReductionOrder.FOLD: "at once"}

HEAD = (
    "<!-- written by `ringtree algorithms --page`; pytest tests/test_docs.py --update-golden brings it up to date -->",
    "Which algorithms serve a collective, when is each the best, and what does it cost? The table lists them by "
    "collective; the section of an algorithm begins with its idea and when to use it. A call chooses by itself "
    "([tuning.md](tuning.md)). `ringtree show NAME -n N --collective C` shows a schedule round by round, `--picture` "
    "draws it, `ringtree prove NAME` proves it, `ringtree bench C --algorithm NAME` measures it.",
    "Options are passed as in `ringtree show split_tree -n 32 --option group=8`; for a call's `algorithm=`, as in "
    '`ringtree.algorithms.build("split_tree", "all_reduce", 32, group=8)`.',
    "Every algorithm serves any number of ranks. Formulas: {terms}. *Bytes* are those of the rank that sends most. "
    "*Fewest rounds* means among algorithms in which a rank sends to one other rank in each round. *Pipelines*: its "
    "rounds pass on one chunk after the other, so that they overlap once the chunks are cut into pieces.",
    "*Adds up*: the order of additions. In *any order*: the operation must commute. *Neighbours*: only sums of "
    "neighbouring ranks are added, the lower ranks' first, so the operation need not commute. *At once*: each sum is "
    "formed in one place in rank order, so all algorithms that add up at once give the same bits.",
    "Pictures: a column a rank, time runs down. {legend}. One line may fan out to many ranks, or in from many.",
)


def page(algorithms: Sequence[Algorithm], terms: str) -> str:
    """The page as Markdown. `terms`: what the letters mean that all formulas share."""
    parts = ["# Algorithms\n", *(_wrapped(p.format(terms=terms, legend=LEGEND)) for p in HEAD), _contents(algorithms)]
    parts += ["\n".join(_section(a)) for a in algorithms]
    return "\n".join(parts)


def _wrapped(paragraph: str) -> str:
    return fill(paragraph, 120, break_long_words=False, break_on_hyphens=False) + "\n"


def _contents(algorithms: Sequence[Algorithm]) -> str:
    rows = [
        (c, ", ".join(f"[{a.name}](#{a.name})" for a in algorithms if c in a.serves))
        for c in COLLECTIVES
        if any(c in a.serves for a in algorithms)
    ]
    return markdown(("collective", "algorithms"), rows) + "\n"


def _section(a: Algorithm) -> Iterator[str]:
    yield f"## {a.name}\n\n{a.summary}\n"
    yield from map(_wrapped, a.about)
    yield _wrapped(f"**When:** {a.when}")
    rows = [
        (c, f"`{cost.rounds}`", f"`{cost.sent}`" + (", pipelines" if cost.pipelines else ""), _order(a, c))
        for c, cost in a.costs.items()
    ]
    shown = 4 if any(row[-1] for row in rows) else 3
    yield markdown(("collective", "rounds", "bytes", "adds up")[:shown], [row[:shown] for row in rows]) + "\n"
    if a.terms:
        yield f"{a.terms}\n"
    yield f"Source: {a.source}\n\n```text\n{_example(a)}\n```\n"


def _order(a: Algorithm, collective: str) -> str:
    """The order of its sums, for every root; empty where it adds up nothing."""
    promise = COLLECTIVES[collective]
    return ORDERS[order(a.name, collective)] if promise.reduces and not promise.repeats else ""


def _example(a: Algorithm) -> str:
    """The picture of the first collective it serves."""
    for ranks in PICTURED_RANKS:
        drawn = picture(a.build(a.serves[0], ranks))
        if drawn.count("\n") < PICTURE_LINES:
            break
    return drawn
