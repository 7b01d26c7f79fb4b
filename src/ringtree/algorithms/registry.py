"""The algorithms there are. What an algorithm serves are the functions of its module that are named like collectives.

A module's docstring states its cost, one line a collective, its source, and when to use it; all are read from there
and typed nowhere else (tests hold the formulas equal to the schedules):

    all_reduce: 2*(n-1) rounds, 2*(n-1)/n*S bytes
    broadcast: n-1 rounds, S bytes, pipelines
    Source: author: title, year
    When: one sentence.

for n > 1 ranks and S bytes in the whole vector. Bytes are what the rank that sends most sends. A leading "at most"
marks a bound; `lg(x)` is the logarithm to base 2 rounded up, `p` the largest power of two that is at most n. Formulas
that use other names are in a module with a function `terms(ranks)`, which gives their values and, in its docstring,
their meaning.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from operator import index
from types import ModuleType

from ringtree.ir.collective import COLLECTIVES, collective
from ringtree.ir.schedule import Schedule

COST = re.compile(r"^(\w+): (.+?) rounds?, (.+?) bytes(, pipelines)?$", re.MULTILINE)
SOURCE = re.compile(r"^Source: (.+(?:\n(?!When: ).+)*)$", re.MULTILINE)
WHEN = re.compile(r"^When: (.+(?:\n(?!Source: ).+)*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one collective costs, as formulas in n, S, p, lg and the names that `terms` gives for n, for n > 1.

    `pipelines`: its rounds pass on one chunk after the other, so that cutting the chunks (transform.pipeline) makes
    the rounds overlap.
    """

    rounds: str
    sent: str
    pipelines: bool
    terms: Callable[[int], Mapping[str, int]] | None = None

    def evaluate(self, ranks: int, nbytes: float) -> tuple[float, float]:
        """(rounds, bytes sent by the busiest rank); upper bounds where the formula says "at most"."""
        names: dict[str, object] = {"n": ranks, "S": nbytes, "p": _power(ranks), "lg": _lg, "min": min}
        names |= self.terms(ranks) if self.terms else {}
        rounds, sent = (
            eval(f.removeprefix("at most "), {"__builtins__": {}}, names)  # our own docstrings, never a user's text
            for f in (self.rounds, self.sent)
        )
        return float(rounds), float(sent)


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One published algorithm. `functions`: per collective it serves, (ranks[, root], **options) -> Schedule.
    `terms`: what the names in its formulas mean that not all formulas share; empty where there are none. `about`: the
    paragraphs of its docstring that say how it works; `when`: when to use it."""

    name: str
    summary: str
    source: str
    functions: Mapping[str, Callable[..., Schedule]]
    costs: Mapping[str, Cost]
    terms: str = ""
    about: tuple[str, ...] = ()
    when: str = ""

    @property
    def serves(self) -> tuple[str, ...]:
        return tuple(self.functions)

    def build(self, collective_name: str, ranks: int, root: int | None = None, **options: object) -> Schedule:
        """The schedule for `ranks` ranks. A rooted collective's root is 0 unless given; others take none. `options` are
        the algorithm's own, which its docstring names."""
        promise = collective(collective_name)
        if collective_name not in self.functions:
            raise ValueError(
                f"{self.name} does not serve {collective_name}: expected one of {', '.join(serving(collective_name))}"
            )
        ranks = _whole(ranks, "ranks")
        if ranks < 1:
            raise ValueError(f"{self.name} {collective_name} over {ranks} ranks: expected at least 1")
        if not promise.rooted and root is not None:
            raise ValueError(f"{collective_name} has no root: got root {root}")
        function = self.functions[collective_name]
        parameters = inspect.signature(function).parameters.values() if options else ()
        known = {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}
        if strange := [o for o in options if o not in known]:
            said = f"expected one of {', '.join(known)}" if known else "it has none"
            raise ValueError(f"{self.name} {collective_name} has no option {strange[0]!r}: {said}")
        for option, value in options.items():
            if value is not None and str(known[option].annotation).startswith("int"):
                options[option] = _whole(value, option)
        if not promise.rooted:
            return function(ranks, **options)
        root = 0 if root is None else _whole(root, "root")
        if not 0 <= root < ranks:
            raise ValueError(f"{collective_name} with root {root}: expected a rank, 0..{ranks - 1}")
        return function(ranks, root, **options)


def _whole(value: object, what: str) -> int:
    """`value` as an int; TypeError where it is no whole number."""
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{what}: got {value!r}; expected a whole number") from None


def _lg(x: int) -> int:
    return (x - 1).bit_length()


def _power(x: int) -> int:
    """The largest power of two that is at most x."""
    return 1 << (x.bit_length() - 1)


def read(module: ModuleType) -> Algorithm:
    """An algorithm from its module: functions by their names, the rest from the docstring."""
    text = module.__doc__ or ""
    name = module.__name__.rpartition(".")[2]
    functions = {c: getattr(module, c) for c in COLLECTIVES if callable(getattr(module, c, None))}
    terms = getattr(module, "terms", None)
    costs = {c: Cost(rounds, sent, bool(flag), terms) for c, rounds, sent, flag in COST.findall(text)}
    meaning = (inspect.getdoc(terms) or "") if terms else ""
    source = SOURCE.search(text)
    when = WHEN.search(text)
    if set(costs) != set(functions) or source is None or when is None:
        raise ImportError(
            f"{module.__name__}: states the cost of {sorted(costs)}, serves {sorted(functions)}, "
            f"{'names' if source else 'lacks'} its source, {'says' if when else 'lacks'} when to use it; expected one "
            "cost line a function, a source and a When"
        )
    summary, *paragraphs = (_joined(p) for p in WHEN.sub("", SOURCE.sub("", COST.sub("", text))).split("\n\n"))
    about = tuple(p for p in (summary[len(_first_line(text)) :].strip(), *paragraphs) if p)
    return Algorithm(name, _first_line(text), _joined(source[1]), functions, costs, meaning, about, _joined(when[1]))


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _joined(text: str) -> str:
    """Lines as one."""
    return " ".join(text.split())


NAMES = (
    "ring",
    "chain",
    "double_tree",
    "halving_doubling",
    "one_shot",
    "two_shot",
    "hierarchical",
    "pairwise",
    "dissemination",
    "hillis_steele",
    "inorder_tree",
    "flat",
    "binomial",
    "bine_tree",
    "binary_tree",
    "recursive_doubling",
    "bruck",
    "circulant",
    "circulant_broadcast",
    "torus",
    "torus_3d",
    "swing",
    "pat",
    "locality_tree",
    "split_tree",
    "parameter_server",
    "sharded_server",
)
"""The modules of this room that are algorithms, in the order in which they are shown: a new one is a line here."""

REGISTRY: dict[str, Algorithm] = {name: read(import_module(f"ringtree.algorithms.{name}")) for name in NAMES}


def build(name: str, collective_name: str, ranks: int, root: int | None = None, **options: object) -> Schedule:
    """The schedule of algorithm `name` for a collective; ValueError saying what there is when there is none."""
    return find(name).build(collective_name, ranks, root, **options)


def find(name: str) -> Algorithm:
    """The algorithm of that name; ValueError naming the known ones otherwise."""
    if name not in REGISTRY:
        raise ValueError(f"no algorithm {name!r}: expected one of {', '.join(REGISTRY)}")
    return REGISTRY[name]


def serving(collective_name: str) -> list[str]:
    """The algorithms that serve a collective."""
    collective(collective_name)
    return [name for name, a in REGISTRY.items() if collective_name in a.functions]


def pairs() -> list[tuple[str, str]]:
    """Every (algorithm, collective) there is."""
    return [(name, c) for name, a in REGISTRY.items() for c in a.functions]
