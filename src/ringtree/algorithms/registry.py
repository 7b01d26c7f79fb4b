"""The table of algorithms: those published in this room, and a user's own.

A published algorithm is a module. Its functions that are named like collectives serve them, each with its `@cost`;
SOURCE is its publication, WHEN its use, and the docstring describes it. A user's own algorithm is a
function, or such a module: registered, named as FILE.py:FUNCTION, or an entry point of an installed package.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from operator import index
from threading import RLock
from types import ModuleType
from typing import TypeVar

from ringtree.algorithms import own
from ringtree.algorithms.cost import Cost
from ringtree.algorithms.published import MODULES
from ringtree.ir.collective import COLLECTIVES, collective
from ringtree.ir.schedule import Schedule

Own = TypeVar("Own", bound="Callable[..., object] | ModuleType")

RESERVED = ("all", "auto")
"""Reserved words in the position of an algorithm's name."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One algorithm. `functions`: per collective it serves, (ranks[, root], **options) -> Schedule. `text`: how it
    works, a docstring; empty under python -OO, which has none. `when`: when to use it. `origin`: the file or package
    of a user's own algorithm; empty for those of this folder, whose schedules tests prove."""

    name: str
    text: str
    source: str
    when: str
    functions: Mapping[str, Callable[..., Schedule]]
    costs: Mapping[str, Cost]
    origin: str = ""

    @property
    def summary(self) -> str:
        """The first line of the algorithm's text."""
        return self.text.strip().partition("\n")[0]

    @property
    def about(self) -> tuple[str, ...]:
        """The paragraphs after that, a line each."""
        rest = inspect.cleandoc(self.text).partition("\n")[2]
        return tuple(p for p in (" ".join(p.split()) for p in rest.split("\n\n")) if p)

    @property
    def serves(self) -> tuple[str, ...]:
        """The names of the collectives that the algorithm serves."""
        return tuple(self.functions)

    @property
    def terms(self) -> str:
        """The meanings of the terms in its formulas; empty where there are none."""
        found = {term.name: term.meaning for stated in self.costs.values() for term in stated.terms()}
        return ", ".join(found[name] for name in sorted(found))

    def function(self, collective_name: str) -> Callable[..., Schedule]:
        """The function that makes its schedules for a collective. ValueError, with the served ones: if it serves
        others."""
        collective(collective_name)
        if collective_name not in self.functions:
            expected = f"one of {', '.join(serving(collective_name))}"
            if self.origin:
                expected = f"{', '.join(self.serves)}, which {self.origin} has, or {expected}"
            raise ValueError(f"{self.name} does not serve {collective_name}: expected {expected}")
        return self.functions[collective_name]

    def accepted(self, collective_name: str, options: Mapping[str, object]) -> dict[str, object]:
        """Returns those of `options` that its function for a collective has."""
        known = inspect.signature(self.function(collective_name)).parameters if options else {}
        return {name: value for name, value in options.items() if name in known and _is_option(known[name])}

    def build(self, collective_name: str, ranks: int, root: int | None = None, **options: object) -> Schedule:
        """The schedule for `ranks` ranks. A rooted collective's root is 0 unless given; others take none. `options` are
        the algorithm's own, which its docstring names. ValueError: for another root, number of ranks or option."""
        promise, function = collective(collective_name), self.function(collective_name)
        ranks = _whole(ranks, "ranks")
        if ranks < 1:
            raise ValueError(f"{self.name} {collective_name} over {ranks} ranks: expected at least 1")
        if not promise.rooted and root is not None:
            raise ValueError(f"{collective_name} has no root: got root {root}")
        parameters = inspect.signature(function).parameters.values() if options else ()
        known = {p.name: p for p in parameters if _is_option(p)}
        if strange := [o for o in options if o not in known]:
            expected = f"expected one of {', '.join(known)}" if known else "it has none"
            raise ValueError(f"{self.name} {collective_name} has no option {strange[0]!r}: {expected}")
        for option, value in options.items():
            kind = own.annotation_of(known[option])
            if value is not None and kind.startswith("int") and not (isinstance(value, str) and "str" in kind):
                options[option] = _whole(value, option)
        if not promise.rooted:
            return function(ranks, **options)
        root = 0 if root is None else _whole(root, "root")
        if not 0 <= root < ranks:
            raise ValueError(f"{collective_name} with root {root}: expected a rank, 0..{ranks - 1}")
        return function(ranks, root, **options)


def _is_option(parameter: inspect.Parameter) -> bool:
    return parameter.kind is parameter.KEYWORD_ONLY


def _whole(value: object, what: str) -> int:
    """`value` as an int; TypeError where it is no whole number."""
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{what}: got {value!r}; expected a whole number") from None


def read(module: ModuleType) -> Algorithm:
    """A published algorithm from its module. ImportError: if it lacks a cost, its source or when to use it."""
    functions = _served(module)
    costs = {name: found.cost for name, found in vars(module).items() if name in functions and hasattr(found, "cost")}
    source, when = getattr(module, "SOURCE", ""), getattr(module, "WHEN", "")
    if set(costs) != set(functions) or not functions or not source or not when:
        raise ImportError(
            f"{module.__name__}: states the cost of {sorted(costs)}, serves {sorted(functions)}, "
            f"{'names' if source else 'lacks'} its SOURCE, {'states' if when else 'lacks'} WHEN to use it; expected "
            "functions named like collectives, a @cost for each, a SOURCE and a WHEN"
        )
    return Algorithm(module.__name__.rpartition(".")[2], module.__doc__ or "", source, when, functions, costs)


def _served(module: ModuleType) -> dict[str, Callable[..., Schedule]]:
    return {c: getattr(module, c) for c in COLLECTIVES if callable(getattr(module, c, None))}


class Published(Mapping[str, Algorithm]):
    """The algorithms of these modules by name. A module is imported when its algorithm is first looked up: a rank of a
    job runs a few of them."""

    def __init__(self, modules: Iterable[str]) -> None:
        self.modules = {module.rpartition(".")[2]: module for module in modules}
        self.loaded: dict[str, Algorithm] = {}

    def __getitem__(self, name: str) -> Algorithm:
        if name not in self.loaded:
            self.loaded[name] = read(import_module(f"ringtree.algorithms.{self.modules[name]}"))
        return self.loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self.modules

    def __iter__(self) -> Iterator[str]:
        return iter(self.modules)

    def __len__(self) -> int:
        return len(self.modules)


REGISTRY = Published(MODULES)
"""The algorithms of this folder."""
NAMES = tuple(REGISTRY)
_own: dict[str, tuple[object, Algorithm]] = {}
"""The registered objects and their algorithms, by name."""
_lock = RLock()
"""Ranks may be threads, and a file that is loaded may itself register."""


def register(what: Own, name: str | None = None, *, origin: str | None = None) -> Own:
    """Makes a function (ranks[, root], **options) -> Schedule, or a module of such functions named like collectives, an
    algorithm of that name (its own unless given); returns it, so that it may decorate. All ranks must register the
    same ones. Calls use it where they name it; it is proved before its first run.

    ValueError for a name that is taken, and for a function that makes no schedule. `origin`: its source, in
    errors.
    """
    source_name = own.origin_of(what) if origin is None else origin
    called = name or getattr(what, "__name__", "").rpartition(".")[2]
    if not re.fullmatch(r"[^\W\d]\w*", called) or called in RESERVED:
        raise ValueError(
            f"{source_name}: {called!r} cannot be an algorithm's name; expected a word, as register(…, name)"
        )
    with _lock:
        if called in REGISTRY:
            raise ValueError(f"{source_name}: ringtree has an algorithm {called!r}; expected another name")
        if called in _own:
            before, there = _own[called]
            if not own.alike(before, what):
                raise ValueError(f"{source_name}: {called!r} is registered, from {there.origin}; expected another name")
            return what
        served = _served(what) if isinstance(what, ModuleType) else own.served(what, called, source_name)
        if not served:
            raise ValueError(f"{source_name}: {called} serves nothing; expected functions named like collectives")
        functions = {c: own.checked(function, c, called, source_name) for c, function in served.items()}
        costs = {c: own.cost_of(function, collective(c).rooted) for c, function in functions.items()}
        source, when = getattr(what, "SOURCE", ""), getattr(what, "WHEN", "")
        _own[called] = what, Algorithm(called, what.__doc__ or "", source, when, functions, costs, source_name)
        return what


def find(name: str) -> Algorithm:
    """The algorithm of that name, or of the function that FILE.py:FUNCTION names. ValueError, with the known ones: if
    there is none."""
    if name in REGISTRY:
        return REGISTRY[name]
    with _lock:
        if name in _own:
            return _own[name][1]
        if own.is_reference(name):
            function = own.load(name)
            path, _, within = name.rpartition(":")
            named = getattr(function, "__name__", "").isidentifier()  # neither a lambda's nor an object's
            register(function, None if named else within, origin=path)
            return next(algorithm for what, algorithm in _own.values() if own.alike(what, function))
        if found := own.installed().get(name):
            register(found.load(), name, origin=f"package {found.package}")
            return _own[name][1]
    raise ValueError(f"no algorithm {name!r}: expected one of {', '.join(known())}, or FILE.py:FUNCTION")


def exists(name: str) -> bool:
    """Whether `find` knows the name, or the name has the form FILE.py:FUNCTION."""
    return name in REGISTRY or name in _own or own.is_reference(name) or name in own.installed()


def known() -> list[str]:
    """The names of all algorithms: published, registered, and of installed packages."""
    return list(dict.fromkeys([*REGISTRY, *_own, *own.installed()]))


def build(name: str, collective_name: str, ranks: int, root: int | None = None, **options: object) -> Schedule:
    """The schedule of algorithm `name` for a collective. ValueError, with the known ones: if there is none."""
    return find(name).build(collective_name, ranks, root, **options)


def check_options(names: Iterable[str], collective_name: str, options: Mapping[str, object]) -> None:
    """Refuses an option that none of these algorithms has for a collective. ValueError, with those that they have."""
    functions = [find(name).function(collective_name) for name in names]
    known = [p.name for f in functions for p in inspect.signature(f).parameters.values() if _is_option(p)]
    for option in options:
        if option not in known:
            expected = f"one of {', '.join(dict.fromkeys(known))}" if known else "none"
            raise ValueError(f"no algorithm that is compared has an option {option!r}: expected {expected}")


def serving(collective_name: str) -> list[str]:
    """The published algorithms that serve a collective."""
    collective(collective_name)
    return [name for name, a in REGISTRY.items() if collective_name in a.functions]


def pairs() -> list[tuple[str, str]]:
    """Every published (algorithm, collective)."""
    return [(name, c) for name, a in REGISTRY.items() for c in a.functions]
