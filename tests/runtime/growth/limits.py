"""A campaign of a number of ranks, and what may be more at its end than half way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
MOST_NBYTES = 4 << 20
"""Of a rank's memory: what Python's and C's allocators keep in pieces. A plan of 1 KiB a call that nobody forgets would
be 12 times as much over half of 100,000 calls."""
MOST_MAPPINGS = 8
NAMES = ("resident_nbytes", "proportional_nbytes", "descriptors", "mappings", "threads")


def held(
    ranks: int, parts: dict[str, int], timeout_s: float, env: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """What the ranks held after each tenth of each part: `by_rank` are lists of soak.figures.Figures as dicts."""
    words = [word for name, number in parts.items() for word in (name, str(number))]
    command = [sys.executable, "-m", "ringtree.cli", "run", "-n", str(ranks), sys.executable, "-m"]
    command += ["tests.runtime.growth.rank", *words]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=timeout_s
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return [json.loads(line[line.index("{") :]) for line in done.stdout.splitlines() if "{" in line]


def warm(looks: list[dict[str, int]]) -> dict[str, int]:
    """What a rank held half way, when all was there that is kept: plans of 1024 kinds of calls, peers' staging, what C
    keeps of the arrays that were freed."""
    return looks[len(looks) // 2 - 1]


def grown_by(looks: list[dict[str, int]]) -> dict[str, int]:
    """By how much the last look is more than that."""
    return {name: looks[-1][name] - warm(looks)[name] for name in NAMES}


def excess(records: list[dict[str, Any]]) -> list[str]:
    """What grew by more than it may, in words."""
    return [
        f"{record['part']}: {name} of rank {rank} grew by {more:,} over {record['number']:,}; "
        f"expected at most {most(name):,}"
        for record in records
        for rank, looks in enumerate(record["by_rank"])
        for name, more in grown_by(looks).items()
        if more > most(name)
    ]


def most(name: str) -> int:
    if name.endswith("_nbytes"):
        return MOST_NBYTES
    return MOST_MAPPINGS if name == "mappings" else 0
