"""run(): a function on ranks that Ray places."""

from __future__ import annotations

import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from ringtree.errors import PeerDied, RankFailed
from ringtree.ray.placement import Demand, Place, placed
from ringtree.ray.rank import Rank, ray_of
from ringtree.runtime.bootstrap.environment import ADDRESS, RAY, SECRET, patience
from ringtree.runtime.launch.crew import Outcome

GRACE_S = 5.0
"""Seconds that survivors of a failure have to end by themselves."""


def run(
    fn: Callable[..., Any],
    ranks: int,
    *args: Any,
    per_node: int | None = None,
    cpus_per_rank: float = 1,
    placement: str = "pack",
    env: Mapping[str, str] | None = None,
    restarts: int = 0,
) -> list[Any]:
    """Runs `fn(comm, *args)` on ranks that Ray places, and returns their results in order of ranks.

    `placement`: "pack" on as few nodes as have room, or "spread" over all; with `per_node` instead, so many ranks on
    each of as many nodes as that takes. Ranks of a node have consecutive numbers. `env`: variables of the ranks'
    processes, from their start. `fn` and `args` are pickled, and `fn` may be a closure; in `fn` also
    `ringtree.init()` gives a world of these ranks. Ray is initialized where it is not yet.

    RankFailed: if a rank raises or its process or node ends, with its traceback, after the others have had 5 s to end.
    With `restarts`, all ranks start anew so many times before that. TimeoutError: if the cluster has no room within
    RINGTREE_TIMEOUT. ImportError: without Ray. Whatever happens, also Ctrl-C, no actor and no placement group stays.
    """
    demand = Demand(ranks, per_node, cpus_per_rank, placement)
    if restarts < 0:
        raise ValueError(f"restarts is {restarts}; expected 0 or more")
    limit_s = patience(None, {**os.environ, **(env or {})})
    ray = _ray()
    if not ray.is_initialized():
        ray.init()
    task = ray.put((fn, args))
    for left in reversed(range(restarts + 1)):
        try:
            with placed(demand, limit_s) as (group, places):
                return _Job(group, places, demand, env).results(task, limit_s)
        except RankFailed as failed:
            if not left:
                raise
            why = str(failed).splitlines()[0]
            logging.getLogger("ringtree.ray").warning("%s; all ranks start again, %d times at most", why, left)
    raise AssertionError("the last attempt returned or raised")


class _Job:
    """The ranks of one attempt, in a placement group that ends them with itself."""

    def __init__(self, group: Any, places: list[Place], demand: Demand, env: Mapping[str, str] | None) -> None:
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        actor = ray.remote(Rank)
        self._places = places
        self._actors = [
            actor.options(
                num_cpus=demand.cpus_per_rank,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, place.bundle),
                **ray_of(env),
            ).remote()
            for place in places
        ]

    def results(self, task: Any, limit_s: float) -> list[Any]:
        """The results by rank. `task`: Ray's reference of it; `limit_s`: how long rank 0's process may take to start.
        RankFailed: for the rank that failed first."""
        size = len(self._actors)
        reserved = self._outcome(self._actors[0].reserve.remote(), limit_s)
        if reserved.failed:
            raise self._failed(0, reserved.story) from reserved.cause
        job = {
            ADDRESS: reserved.result,
            SECRET: secrets.token_hex(16),
            "RINGTREE_JOB": f"{RAY}{os.urandom(8).hex()}",
            "RINGTREE_WORLD_SIZE": str(size),
        }
        references = [
            actor.work.remote({**job, "RINGTREE_RANK": str(rank)}, task) for rank, actor in enumerate(self._actors)
        ]
        outcomes = self._finish(references)
        if any(outcome.failed for outcome in outcomes.values()):
            rank, story, cause = _first(outcomes)
            raise self._failed(rank, story) from cause
        return [outcomes[rank].result for rank in range(size)]

    def _finish(self, references: list[Any]) -> dict[int, Outcome]:
        """The ranks' outcomes in order of time. After a failure, those of GRACE_S."""
        import ray

        outcomes: dict[int, Outcome] = {}
        deadline_s: float | None = None
        waiting = {reference: rank for rank, reference in enumerate(references)}
        while waiting:
            left_s = None if deadline_s is None else max(deadline_s - time.monotonic(), 0)
            ready, _ = ray.wait(list(waiting), timeout=left_s)
            if not ready:
                break
            rank = waiting.pop(ready[0])
            outcomes[rank] = self._outcome(ready[0])
            if outcomes[rank].failed and deadline_s is None:
                deadline_s = time.monotonic() + GRACE_S
        return outcomes

    def _outcome(self, reference: Any, limit_s: float | None = None) -> Outcome:
        import ray
        from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

        try:
            found = ray.get(reference, timeout=limit_s)
            return found if isinstance(found, Outcome) else Outcome(found)
        except GetTimeoutError as error:
            return Outcome(story=f"its process did not start within {limit_s:g} s", cause=error)
        except RayActorError as error:
            return Outcome(story=f"its process ended: {_brief(str(error))}", cause=error)
        except RayTaskError as error:  # what it got or returned cannot be pickled
            return Outcome(story=f"{type(error.cause).__name__}: {error.cause}", cause=error)
        except RayError as error:
            return Outcome(story=str(error), cause=error)

    def _failed(self, rank: int, story: str) -> RankFailed:
        return RankFailed(f"rank {rank} of {len(self._places)} on node {self._places[rank].node} failed: {story}", rank)


def _first(outcomes: dict[int, Outcome]) -> tuple[int, str, BaseException | None]:
    """Rank, story and error of the failure that came first; one that only reports another rank's end stands for that
    rank where Ray has not noticed it, as after the end of a node."""
    failures = [(rank, outcome) for rank, outcome in outcomes.items() if outcome.failed]
    for rank, outcome in failures:
        if not outcome.secondary:
            return rank, outcome.story, outcome.cause
    rank, outcome = failures[0]
    named = re.match(r"rank (\d+) ", str(outcome.cause))  # by its number in the world, in whatever group it was missed
    if isinstance(outcome.cause, PeerDied) and named and int(named[1]) not in outcomes:
        return int(named[1]), f"rank {rank} raised {outcome.story}", outcome.cause
    return rank, outcome.story, outcome.cause


def _brief(text: str) -> str:
    """Ray's account of an actor's end, in one line without its guesses."""
    if "in its creation task" in text:
        return f"{text.strip().splitlines()[-1]}; expected the same installation of ringtree on every node"
    detail = text.rpartition("Worker exit detail: ")[2].partition("Some common causes")[0]
    lines = [line.strip() for line in detail.splitlines()]
    return " ".join(line for line in lines if line and not re.match(r"\w+: \S+$", line))


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError(f"ringtree.ray needs Ray ({error}): pip install ray") from None
    return ray
