"""One rank's part: the tests of one file of the suite, from a given one on, an outcome a line.

    python rank.py FOLDER MODULE FIRST RECORD

A line of RECORD.<rank> is a JSON list: index, name, status, reason. After a failure that peers need not share the rank
ends, and the next job begins behind that test.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import unittest
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from ringtree import mpi as MPI

PASS, SKIP, FAIL = "pass", "skip", "fail"
SHARED = (AttributeError, NotImplementedError, TypeError, KeyError)
"""What all ranks of a call fail with alike, before anything is sent."""


def flattened(suite: Any) -> Iterator[unittest.TestCase]:
    """The tests of a suite of suites."""
    if isinstance(suite, unittest.TestCase):
        yield suite
    else:
        for part in suite:
            yield from flattened(part)


class Recorder(unittest.TestResult):
    """Remembers the outcome of the last test."""

    status, reason, shared = PASS, "", True

    def startTest(self, test: unittest.TestCase) -> None:
        self.status, self.reason, self.shared = PASS, "", True

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.status, self.reason = SKIP, reason

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.status, self.shared = FAIL, isinstance(err[1], SHARED)
        text = str(err[1]).strip().splitlines()
        self.reason = f"{err[0].__name__}: {text[0] if text else ''}"

    addError = addFailure

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self.addFailure(test, err)


def run(module: str, first: int, record: TextIO) -> None:
    """Runs the tests of a module from number `first` on, with all its arrays but those that pretend to be a GPU's."""
    arrays = importlib.import_module("arrayimpl").ArrayBackends
    arrays[:] = [kind for kind in arrays if "GPU" not in kind.__name__]
    tests = sorted(flattened(unittest.defaultTestLoader.loadTestsFromName(module)), key=lambda test: test.id())
    recorder = Recorder()
    for index, test in enumerate(tests[first:], first):
        record.write(json.dumps([index, test.id(), "begun", len(tests)]) + "\n")
        record.flush()
        test.run(recorder)
        record.write(json.dumps([index, test.id(), recorder.status, recorder.reason]) + "\n")
        record.flush()
        if not recorder.shared:
            os._exit(0)


def main() -> None:
    folder, module, first, record = sys.argv[1:]
    warnings.simplefilter("ignore")
    sys.path.insert(0, folder)
    MPI.replace()
    with Path(f"{record}.{MPI.COMM_WORLD.Get_rank()}").open("w", encoding="utf-8") as lines:
        run(module, int(first), lines)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
