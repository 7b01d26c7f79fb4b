"""Ranks started from a running program: a notebook, a test. Forked processes, so that closures work, or threads."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from pickle import UnpicklingError
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from ringtree.errors import RankFailed
from ringtree.runtime.bootstrap.environment import SPAWNED, detect, patience
from ringtree.runtime.communicator.arguments import listed, whole
from ringtree.runtime.engines.engine import GroupParameters, default_engine, in_threads
from ringtree.runtime.launch import own_cores
from ringtree.runtime.launch.crew import Crew, Outcome, Pin, Task
from ringtree.runtime.launch.spawn_processes import Processes
from ringtree.runtime.launch.spawn_threads import Threads
from ringtree.runtime.linux import require_linux
from ringtree.runtime.tuned import parameters_here

if TYPE_CHECKING:
    from typing_extensions import Self

_numbers = itertools.count()
MOST_RANKS = 4096
"""Each has a staging slot for every other, and the engine has so many."""
GRACE_S = 5.0
"""Seconds that survivors of a failure have to end by themselves."""


def spawn(
    fn: Callable[..., Any],
    n: int,
    *args: Any,
    threads: bool = False,
    engine: str | None = None,
    timeout_s: float | None = None,
    pin: Pin = False,
) -> list[Any]:
    """Runs `fn(comm, *args)` on n new ranks and returns their results in order of ranks.

    Ranks are forked processes (`fn` may be a closure; results are pickled), or threads of this one. `timeout_s` bounds
    their waits in seconds (default: RINGTREE_TIMEOUT, else 300). `pin`: one rank a core, if they fit; or the core of
    each rank. RankFailed: if a rank fails, with its traceback, after the others have had 5 s to end. ValueError: if
    n < 1 or > MOST_RANKS, or this process is itself one of several ranks: all of them would start n more.
    """
    if not callable(fn):
        raise TypeError(f"spawn({fn!r}, ...): expected a function that takes a communicator, then the number of ranks")
    crew = _crew(n, threads, engine, timeout_s, pin, (fn, args))
    try:
        return _results(crew.finish(GRACE_S), n)
    finally:
        crew.stop()


class Pool:
    """A pool of n ranks that live across calls. Ranks that are processes take pickled, that is importable, functions.
    Arguments as in spawn."""

    def __init__(
        self,
        n: int,
        *,
        threads: bool = False,
        engine: str | None = None,
        timeout_s: float | None = None,
        pin: Pin = False,
    ) -> None:
        self._have(whole(n, "n"), _crew(n, threads, engine, timeout_s, pin, None))

    def _have(self, size: int, crew: Crew) -> None:
        self.size = size
        self._turn = threading.Lock()  # one call at a time: answers carry no mark of their task
        self._crew: Crew | None = crew

    def run(self, fn: Callable[..., Any], *args: Any) -> list[Any]:
        """Runs `fn(comm, *args)` on every rank, with the same communicator each time; returns the results by rank.
        Several threads have turns. RankFailed: if a rank fails, which ends the pool. RuntimeError: if the pool has
        ended. PicklingError: if the call cannot be pickled; UnpicklingError: if no rank can unpickle it, as one of a
        function that was defined after the pool, or has other code by now."""
        if not callable(fn):
            raise TypeError(f"run({fn!r}, ...): expected a function that takes a communicator")
        with self._turn:
            if (crew := self._crew) is None:
                raise RuntimeError("this pool has ended: a rank failed, or it was closed")
            task = crew.written((fn, args))
            try:
                crew.start(task)
                outcomes = crew.finish(GRACE_S)
                if len(outcomes) < self.size or not all(outcome.refused for _, outcome in outcomes):
                    return _results(outcomes, self.size)
            except BaseException:
                self.close()
                raise
        raise _refusal(fn, outcomes[0][1])

    @property
    def alive(self) -> bool:
        """Whether the pool takes another task."""
        return self._crew is not None

    def close(self) -> None:
        """Ends the ranks; a closed pool stays closed."""
        crew, self._crew = self._crew, None
        if crew is not None:
            crew.stop()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Pool is this process's own and cannot be copied or pickled")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _crew(n: int, threads: bool, engine: str | None, timeout_s: float | None, pin: Pin, first: Task | None) -> Crew:
    if not 1 <= (n := whole(n, "n")) <= MOST_RANKS:
        raise ValueError(f"{n} ranks: expected {'at least 1' if n < 1 else f'at most {MOST_RANKS}'}")
    require_linux()
    _refuse_a_rank(n)
    threads, pin = bool(threads), _cores(pin, n)
    engine = engine or default_engine(n)
    if in_threads(engine) and n > 1 and not threads:
        raise ValueError(f"the {engine} engine's ranks are threads: pass threads=True")
    job = f"{SPAWNED}{os.getpid()}-{next(_numbers)}-{os.urandom(4).hex()}"
    names = tuple(map(str, range(n)))
    cost, limit_s = parameters_here(), patience(timeout_s)
    parameters = [GroupParameters(job, rank, names, limit_s, threads, cost=cost) for rank in range(n)]
    if threads:
        return Threads(engine, parameters, first, pin)
    return Processes(engine, parameters, first, pin)


def _cores(pin: Pin, n: int) -> Pin:
    """The core of each rank where they are listed; a truth value as it is."""
    if isinstance(pin, bool):
        return pin
    cores = [whole(core, "a core of pin") for core in listed(pin, "pin", "cores")]
    if len(cores) < n:
        raise ValueError(f"pin has {len(cores)} of {n} cores; expected one for each rank")
    here = own_cores.usable()
    if wrong := [core for core in cores if core not in here]:
        raise ValueError(f"pin has core {wrong[0]}; expected cores that this process may use, {here}")
    return cores


def _refuse_a_rank(n: int) -> None:
    """A launched rank reaches its world by init(); spawn() would give every rank a world of its own."""
    world = detect()
    if world.size > 1:
        raise ValueError(
            f"spawn({n}) in rank {world.rank} of the {world.size} that {world.launcher} started would start {n} in "
            "each of them; expected comm = ringtree.init(), or the program started once, without a launcher"
        )


def _refusal(fn: Callable[..., Any], outcome: Outcome) -> UnpicklingError:
    name = getattr(fn, "__qualname__", type(fn).__name__)
    error = UnpicklingError(
        f"the ranks cannot unpickle the call of {name}: {outcome.story}; they have what was there when the Pool was "
        "made: expected a function of a module that they can import, a Pool that is made after all definitions, or one "
        "with threads=True"
    )
    error.__cause__ = outcome.cause
    return error


def _results(outcomes: list[tuple[int, Outcome]], n: int) -> list[Any]:
    """The results by rank; raises for the failure that came first, preferring one that is not about another rank."""
    failures = [(rank, o) for rank, o in outcomes if o.failed]
    if failures:
        rank, first = next((f for f in failures if not f[1].secondary), failures[0])
        raise RankFailed(f"rank {rank} of {n} failed: {first.story}", rank) from first.cause
    by_rank = dict(outcomes)
    return [by_rank[rank].result for rank in range(n)]
