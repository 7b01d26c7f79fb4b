"""A user's own algorithms: functions in files, by FILE.py:FUNCTION, and entry points of installed packages.

Nothing of them is taken on trust: an exception of a function, or a result that is no schedule of its collective, is a
ValueError in one line, with the file and the line in it.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from contextvars import ContextVar
from dataclasses import replace
from functools import wraps
from importlib.util import module_from_spec, spec_from_file_location
from operator import index
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from ringtree.algorithms.cost import Cost, Expression
from ringtree.files.file_bytes import file_bytes
from ringtree.ir.collective import collective
from ringtree.ir.schedule import Block, Schedule, Transfers

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Function = Callable[..., Schedule]

ENTRY_POINTS = "ringtree.algorithms"
"""The group of packages' entry points; each is a function, or a module of functions named like collectives."""
MOST_BYTES = 1 << 20
"""The longest file whose functions are listed."""
PROBED_RANKS = (4, 2, 3, 8, 5, 6, 7, 16, 9, 12, 32, 64, 1)
"""Numbers of ranks over which a function is called, until it makes a schedule, to find its collective."""


class Counted(Expression):
    """A cost without a statement: counted in the schedule. `rounds`: the rounds if true, else the bytes sent."""

    __slots__ = ("function", "rooted", "rounds")

    def __init__(self, function: Function, rooted: bool, rounds: bool) -> None:
        self.function, self.rooted, self.rounds = function, rooted, rounds

    def evaluate(self, ranks: int, nbytes: float) -> float:
        """Returns rounds, or bytes sent by the busiest rank, counted in the schedule for `ranks`."""
        made = self.function(ranks, 0) if self.rooted else self.function(ranks)
        return made.rounds if self.rounds else float(made.chunks_sent().max(initial=0)) / made.chunks * nbytes

    def __str__(self) -> str:
        return "not stated"


_is_apart: ContextVar[bool] = ContextVar("_is_apart", default=False)


@contextmanager
def printing_apart() -> Iterator[None]:
    """Sends what a user's files and functions print to stderr meanwhile: stdout is the result of a command."""
    before = _is_apart.set(True)
    try:
        yield
    finally:
        _is_apart.reset(before)


def _apart() -> AbstractContextManager[object]:
    """Around a user's code. In a program stdout stays, which its other threads may print to."""
    return redirect_stdout(sys.stderr) if _is_apart.get() else nullcontext()


def is_reference(text: str) -> bool:
    """Whether `text` names a function in a file, as FILE.py:FUNCTION."""
    return re.fullmatch(r".+\.py:[^/]*", text) is not None


def functions_in(path: str) -> list[str]:
    """The names of the functions that a Python file defines for others, by its text alone; none of a broken file."""
    try:
        defined = ast.parse(file_bytes(path, "a Python file", MOST_BYTES)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # of what is nested too deeply
        return []
    return [each.name for each in defined if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")]


def absolute(reference: str) -> str:
    """The reference as processes with another working directory read it."""
    path, _, function = reference.rpartition(":")
    return f"{os.path.realpath(path)}:{function}"


def load(reference: str) -> Function:
    """The function that FILE.py:FUNCTION names; the file is executed once in this process. ValueError: if there is no
    such file or function, or the file raises."""
    path, _, function = reference.rpartition(":")
    if not os.path.isfile(path):  # nor a pipe, which Python would wait for
        raise ValueError(f"{reference}: no file {path}; expected FILE.py:FUNCTION")
    module = _executed(path)
    found = getattr(module, function, None)
    if not callable(found) or isinstance(found, type):
        there = [k for k, f in vars(module).items() if inspect.isfunction(f) and f.__module__ == module.__name__]
        has = f"expected one of {', '.join(there)}" if there else "it defines no function at all"
        raise ValueError(f"{reference}: {path} has no function {function!r}; {has}")
    return found  # type: ignore[no-any-return]


def _executed(path: str) -> ModuleType:
    """The file as a module of a unique name; its imports come from its own folder first."""
    file = os.path.realpath(path)
    folder, base = os.path.split(file)
    name = f"{os.path.splitext(base)[0]}@{file}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        with _apart():
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ValueError(f"{path}: {_in_words(error, file)}") from error
    finally:
        sys.path.remove(folder)
    return module


def _in_words(error: BaseException, file: str) -> str:
    """An error of a user's file in a line, with the line of the file that it comes from."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    from traceback import extract_tb

    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == file]
    text = " ".join(str(error).split())
    message = text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}"
    return f"{message} (line {lines[-1]})" if lines else message


def installed() -> dict[str, Installed]:
    """The packages' entry points in ENTRY_POINTS, by name. Nothing is imported yet."""
    from importlib.metadata import entry_points  # late: it takes as long as all of this room

    found: dict[str, Installed] = {}
    for point in entry_points(group=ENTRY_POINTS):
        package = point.dist.name if point.dist else point.value
        before = found.get(point.name)
        others = () if before is None else tuple(p for p in before.packages if p != package)
        found[point.name] = Installed((*others, package), point)
    return found


class Installed(NamedTuple):
    """An entry point, and the packages that have one of its name."""

    packages: tuple[str, ...]
    point: EntryPoint

    @property
    def package(self) -> str:
        """The packages that define the algorithm, joined by "and"."""
        return " and ".join(self.packages)

    def load(self) -> Any:
        """The function or module that it names. ValueError where two packages chose the same name, and for an exception
        of the package."""
        if len(self.packages) > 1:
            raise ValueError(f"packages {self.package} both have an algorithm {self.point.name!r}; expected one")
        try:
            with _apart():
                return self.point.load()
        except (Exception, SystemExit) as error:
            raise ValueError(
                f"package {self.package}: {self.point.value} cannot be loaded: {type(error).__name__}: {error}"
            ) from error


def alike(one: object, other: object) -> bool:
    """Whether two objects are one function, or one function of a file that was executed twice: as a program, and for
    FILE.py:FUNCTION."""
    codes = [getattr(what, "__code__", None) for what in (one, other)]
    top = all(getattr(what, "__qualname__", "") == getattr(what, "__name__", None) for what in (one, other))
    files = {os.path.realpath(code.co_filename) for code in codes if code}
    return one is other or (top and None not in codes and codes[0] == codes[1] and len(files) == 1)


def origin_of(what: object) -> str:
    """The file of a function or module, where it is known."""
    try:
        return os.path.basename(inspect.getfile(what))  # type: ignore[arg-type]
    except (TypeError, OSError):
        return getattr(what, "__module__", None) or type(what).__name__


def annotation_of(parameter: inspect.Parameter) -> str:
    """The annotation as its source has it, where annotations are evaluated too."""
    stated = parameter.annotation
    return stated if isinstance(stated, str) else inspect.formatannotation(stated)


def cost_of(function: Function, rooted: bool) -> Cost:
    """The cost that a function states by `@cost`; else its schedules' counts."""
    stated = getattr(function, "cost", None)
    if isinstance(stated, Cost):
        return stated
    return Cost(Counted(function, rooted, rounds=True), Counted(function, rooted, rounds=False))


def served(function: object, name: str, origin: str) -> dict[str, Function]:
    """The function, by the collective of the first schedule that it makes."""
    if not callable(function):
        raise TypeError(f"{origin}: {function!r} is no algorithm; expected a function or a module")
    needed = [
        p
        for p in inspect.signature(function).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    if len(needed) not in (1, 2):
        raise ValueError(f"{origin}: {name} takes {len(needed)} arguments; expected (ranks), or (ranks, root)")
    refusals = []
    for ranks in PROBED_RANKS:
        try:
            with _apart():
                made = function(ranks, *[0] * (len(needed) - 1))
        except (Exception, SystemExit) as error:  # noqa: BLE001  # it may serve some numbers of ranks only
            refusals.append(f"over {ranks}: {_in_words(error, _file(function))}")
            continue
        promise = collective(_schedule(made, name, ranks, origin).collective)
        if promise.rooted != (len(needed) == 2):
            expected = "(ranks, root)" if promise.rooted else "(ranks)"
            raise ValueError(f"{origin}: {name} is for {promise.name}; expected a function of {expected}")
        return {promise.name: function}
    raise ValueError(
        f"{origin}: {name} makes no schedule over any of {len(PROBED_RANKS)} numbers of ranks; {refusals[0]}"
    )


def checked(function: Function, collective_name: str, name: str, origin: str) -> Function:
    """The function with its schedules checked: of this collective, over the requested ranks and root, under the
    algorithm's name."""

    @wraps(function)
    def build(ranks: int, *root: int, **options: object) -> Schedule:
        asked = _in_short(collective_name, ranks, root[0] if root else None)
        try:
            with _apart():
                made = function(ranks, *root, **options)
        except (Exception, SystemExit) as error:
            raise ValueError(f"{origin}: {name} {asked}: {_in_words(error, _file(function))}") from error
        made = _schedule(made, name, ranks, origin)
        got = _in_short(made.collective, made.ranks, made.root)
        if got != asked:
            raise ValueError(f"{origin}: {name} made a schedule of {got}; expected {asked}")
        return replace(made, name=name)

    return build


def _in_short(collective_name: str, ranks: int, root: int | None) -> str:
    return f"{collective_name} over {ranks} ranks" + ("" if root is None else f", root {root}")


def _schedule(made: object, name: str, ranks: int, origin: str) -> Schedule:
    """The schedule with its numbers as Python's own, which numpy's are not in files."""
    where = f"{origin}: {name} over {ranks} ranks"
    if inspect.iscoroutine(made):
        made.close()  # Python warns of one that is not awaited
    if not isinstance(made, Schedule):
        got = "None" if made is None else f"a {type(made).__name__}"
        raise ValueError(f"{where} returns {got}; expected a ringtree.ir.schedule.Schedule")
    if not isinstance(made.blocks, (tuple, list)) or not all(isinstance(block, Block) for block in made.blocks):
        kind = type(made.blocks).__name__
        raise ValueError(f"{where} has {kind} as its blocks; expected a tuple of ringtree.ir.schedule.Block")
    if other := [block.rows for block in made.blocks if not isinstance(block.rows, Transfers)]:
        kind = type(other[0]).__name__
        raise ValueError(f"{where} has {kind} as the rows of a block; expected ringtree.ir.schedule.Transfers")
    ranks, chunks = _number(made.ranks, "ranks", where), _number(made.chunks, "chunks", where)
    scratch, switches = _number(made.scratch, "scratch", where), _number(made.switches, "switches", where)
    root = None if made.root is None else _number(made.root, "root", where)
    blocks = tuple(replace(block, times=_number(block.times, "times", where)) for block in made.blocks)
    return Schedule(made.name, made.collective, ranks, chunks, blocks, root, scratch, switches)


def _number(value: object, field: str, where: str) -> int:
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ValueError(f"{where} has {field} {value!r}; expected a whole number") from None


def _file(function: Callable[..., object]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code.co_filename if code else ""
