"""Runs the communication tests of mpi4py's suite on ringtree.mpi.

    python -m tests.mpi.suite FOLDER              # of an unpacked sdist; writes the table in docs/mpi4py_suite.md
    python -m tests.mpi.suite FOLDER -k p2p_buf   # a look at some files; writes nothing

A test passes where it passes on every rank. A test that fails behind another of its job is run once more at the head
of one, since the earlier failure may have left messages behind.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.mpi.suite.table import FILES, markdown, row

ROOT = Path(__file__).parent.parent.parent.parent
TABLE = ROOT / "docs" / "mpi4py_suite.md"


class Outcome(NamedTuple):
    """Of one test: "pass", "skip" or "fail", and why."""

    name: str
    status: str
    reason: str


def job(options: argparse.Namespace, module: str, first: int) -> tuple[list[Outcome], int]:
    """The outcomes of the tests from `first` on up to the first that one rank did not share, and how many the file
    has."""
    with tempfile.TemporaryDirectory() as folder:
        program = [str(ROOT / "tests/mpi/suite/rank.py"), str(options.folder / "test"), module, str(first)]
        command = [sys.executable, "-m", "ringtree.cli", "run", "-n", str(options.ranks), *program, f"{folder}/record"]
        _ended(command, options.limit_s)
        records = [Path(f"{folder}/record.{rank}") for rank in range(options.ranks)]
        rows = [[json.loads(line) for line in p.read_text().splitlines()] if p.exists() else [] for p in records]
    total = max((line[3] for lines in rows for line in lines if line[2] == "begun"), default=0)
    ends = [{line[0]: line for line in lines} for lines in rows]
    made: list[Outcome] = []
    for index in range(first, total):
        lines = [end.get(index) for end in ends]
        if all(line is None for line in lines):
            break
        name = next(line[1] for line in lines if line)
        failed = [line[3] for line in lines if line and line[2] == "fail"]
        if failed:
            made.append(Outcome(name, "fail", _root(failed)))
        elif any(line is None or line[2] == "begun" for line in lines):
            made.append(Outcome(name, "fail", "a rank did not end"))
            break
        else:
            made.append(Outcome(name, *max((line[2], line[3]) for line in lines if line)))
    return made, total


def _root(reasons: list[str]) -> str:
    """The reason that is no echo of a peer's."""
    return min(reasons, key=lambda text: ("died" in text or "left" in text, text))


def _ended(command: list[str], limit_s: float) -> None:
    environment = {**os.environ, "RINGTREE_TIMEOUT": "8"}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def file(options: argparse.Namespace, module: str) -> list[Outcome]:
    """The outcomes of all tests of one file."""
    known: list[Outcome] = []
    while True:
        made, total = job(options, module, len(known))
        if not made:
            missing = total - len(known)
            return known or [Outcome(module, "fail", "the file does not load")] if missing <= 0 else known
        for outcome in made:
            behind = outcome is not made[0] and any(o.status == "fail" for o in made[: made.index(outcome)])
            if outcome.status == "fail" and behind and not outcome.reason.startswith(("Missing", "AttributeError")):
                break
            known.append(outcome)
        if len(known) >= total:
            return known


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="an unpacked source distribution of mpi4py")
    parser.add_argument("-k", default="", help="only files whose name has this")
    parser.add_argument("-n", "--ranks", type=int, default=2)
    parser.add_argument("-v", "--verbose", action="store_true", help="each test that does not pass, and why")
    parser.add_argument("--limit-s", type=float, default=120, help="seconds for one job")
    options = parser.parse_args()
    rows = {}
    for module in [name for name in FILES if options.k in name]:
        rows[module] = file(options, module)
        print(row(module, rows[module]), flush=True)
        if options.verbose:
            for outcome in rows[module]:
                if outcome.status == "fail":
                    print(f"    {outcome.name}: {outcome.reason[:200]}", flush=True)
    if not options.k:
        TABLE.write_text(markdown(rows, options.folder.name, options.ranks), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
