"""The ranks that spawn and a Pool start, processes or threads: a task for each, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ringtree.errors import Mismatch, PeerDied, Poisoned, TimedOut

Task = tuple[Callable[..., Any], tuple[Any, ...]]
Pin = bool | Sequence[int]
"""Whether each rank stays on a core of its own, or the core of each rank."""


class Outcome:
    """The end of a rank's task: with a result, or with an error (`cause` may be None where it cannot be carried over).

    `story`: the rank's traceback, or how its process ended. `refused`: the rank could not read the task, and waits for
    another.
    """

    def __init__(
        self, result: Any = None, story: str = "", cause: BaseException | None = None, *, refused: bool = False
    ) -> None:
        self.result, self.story, self.cause, self.refused = result, story, cause, refused

    @property
    def failed(self) -> bool:
        """Whether the task raised, or the process ended without a result."""
        return bool(self.story)

    @property
    def secondary(self) -> bool:
        """Whether the error only reports that another rank failed."""
        return isinstance(self.cause, PeerDied | Poisoned | TimedOut | Mismatch)


class Crew(Protocol):
    """The ranks of a pool. `start` gives every rank the task; `finish` waits, and returns outcomes in order of time."""

    def written(self, task: Task) -> Any:
        """The task as `start` takes it. An exception, as of pickle, leaves the ranks as they are."""
        ...

    def start(self, task: Any) -> None:
        """Gives every rank the task."""
        ...

    def finish(self, grace_s: float) -> list[tuple[int, Outcome]]:
        """(rank, outcome) in order of time; `grace_s`: how long survivors of a failure have to end."""
        ...

    def stop(self) -> None:
        """Ends every rank."""
        ...
