"""Runs tests of the suite on one backend, each on as many ranks as it asks for."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from subprocess import PIPE

from tests.torch_backend.suite import faces
from tests.torch_backend.suite.outcomes import SKIP, Outcome

ROOT = Path(__file__).parents[3]
RANKS = 2
SMALL_WORLD_RANKS = 8
"""The ranks that the suite's `skip_if_small_worldsize` needs; the suite has no name for the number."""


def names() -> list[str]:
    """Every test. Imports the suite, for Gloo on 2 ranks."""
    faces.put_on(faces.GLOO, RANKS)
    from tests.torch_backend.suite import cases

    return cases.names()


def run(face: str, tests: list[str], limit_s: float, jobs: int = 1) -> Iterator[Outcome]:
    """Their outcomes, in the order in which they come. A test that skips for want of ranks is run again on as many as
    it asks for. `jobs` of them are run at once."""
    waiting = {RANKS: tests}
    while waiting:
        ranks = min(waiting)
        for outcome in _side_by_side(face, ranks, waiting.pop(ranks), limit_s, jobs):
            more = ranks_asked_for(outcome)
            if more > ranks:
                waiting.setdefault(more, []).append(outcome.name)
            else:
                yield outcome


def ranks_asked_for(outcome: Outcome) -> int:
    """0 where it did not skip for want of ranks."""
    if outcome.status != SKIP:
        return 0
    asked = re.search(r"world size of (\d+)", outcome.reason)
    if asked:
        return int(asked[1])
    return SMALL_WORLD_RANKS if "small world size" in outcome.reason else 0


def _side_by_side(face: str, ranks: int, tests: list[str], limit_s: float, jobs: int) -> Iterator[Outcome]:
    parts = [part for part in (tests[k::jobs] for k in range(jobs)) if part]
    came: SimpleQueue[Outcome] = SimpleQueue()

    def serve(part: list[str]) -> None:
        for outcome in _served(face, ranks, part, limit_s):
            came.put(outcome)

    with ThreadPoolExecutor(jobs) as pool:
        serving = [pool.submit(serve, part) for part in parts]
        while not (came.empty() and all(server.done() for server in serving)):
            with contextlib.suppress(Empty):
                yield came.get(timeout=0.1)
        for server in serving:
            server.result()


def _served(face: str, ranks: int, tests: list[str], limit_s: float) -> Iterator[Outcome]:
    command = [sys.executable, "-m", "tests.torch_backend.suite.serve", face, str(ranks), f"{limit_s:g}"]
    with subprocess.Popen(command, cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True, env=_environment()) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write("\n".join(tests))
        server.stdin.close()
        for line in server.stdout:
            yield Outcome(**json.loads(line))
    if server.returncode:
        raise RuntimeError(f"the suite's server for {face} on {ranks} ranks ended with {server.returncode}")


def _environment() -> dict[str, str]:
    """Ours without what would give the tests another world."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("TORCH_", "RINGTREE_")) and k != "MASTER_PORT"}
