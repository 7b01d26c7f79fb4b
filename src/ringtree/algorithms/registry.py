"""The table of algorithms.

An algorithm is a module. Its functions that are named like collectives are what it serves, each with its `@cost`;
SOURCE says who published it, WHEN when to use it, the docstring how it works.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import index
from types import ModuleType

from ringtree.algorithms.cost import Cost
from ringtree.ir.collective import COLLECTIVES, collective
from ringtree.ir.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One algorithm. `functions`: per collective it serves, (ranks[, root], **options) -> Schedule. `about`: the
    paragraphs that say how it works; `when`: when to use it."""

    name: str
    summary: str
    source: str
    functions: Mapping[str, Callable[..., Schedule]]
    costs: Mapping[str, Cost]
    about: tuple[str, ...] = ()
    when: str = ""

    @property
    def serves(self) -> tuple[str, ...]:
        return tuple(self.functions)

    @property
    def terms(self) -> str:
        """What the terms of its own mean that its formulas are written with; empty where there are none."""
        found = {term.name: term.meaning for stated in self.costs.values() for term in stated.terms()}
        return ", ".join(found[name] for name in sorted(found))

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
        known = {p.name: p for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY}
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


def read(module: ModuleType) -> Algorithm:
    """A published algorithm from its module. ImportError where it lacks a cost, its source or when to use it."""
    functions = {c: getattr(module, c) for c in COLLECTIVES if callable(getattr(module, c, None))}
    costs = {name: found.cost for name, found in vars(module).items() if name in functions and hasattr(found, "cost")}
    source, when = getattr(module, "SOURCE", ""), getattr(module, "WHEN", "")
    if set(costs) != set(functions) or not functions or not source or not when:
        raise ImportError(
            f"{module.__name__}: states the cost of {sorted(costs)}, serves {sorted(functions)}, "
            f"{'names' if source else 'lacks'} its SOURCE, {'says' if when else 'lacks'} WHEN to use it; expected "
            "functions named like collectives, a @cost for each, a SOURCE and a WHEN"
        )
    summary, about = _described(module)
    return Algorithm(module.__name__.rpartition(".")[2], summary, source, functions, costs, about, when)


def _described(what: object) -> tuple[str, tuple[str, ...]]:
    """The first line of a docstring, and its paragraphs; nothing under python -OO, which has no docstrings."""
    text = inspect.cleandoc(getattr(what, "__doc__", None) or "")
    summary, _, rest = text.partition("\n")
    return summary, tuple(p for p in (" ".join(p.split()) for p in rest.split("\n\n")) if p)


REGISTRY: dict[str, Algorithm] = {}
"""The algorithms of this room, which `published` fills in."""


def find(name: str) -> Algorithm:
    """The algorithm of that name; ValueError naming the known ones otherwise."""
    if name not in REGISTRY:
        raise ValueError(f"no algorithm {name!r}: expected one of {', '.join(REGISTRY)}")
    return REGISTRY[name]


def build(name: str, collective_name: str, ranks: int, root: int | None = None, **options: object) -> Schedule:
    """The schedule of algorithm `name` for a collective; ValueError saying what there is when there is none."""
    return find(name).build(collective_name, ranks, root, **options)


def serving(collective_name: str) -> list[str]:
    """The published algorithms that serve a collective."""
    collective(collective_name)
    return [name for name, a in REGISTRY.items() if collective_name in a.functions]


def pairs() -> list[tuple[str, str]]:
    """Every (algorithm, collective) that is published here."""
    return [(name, c) for name, a in REGISTRY.items() for c in a.functions]
