"""Runs tests of the suite, each in a process of its own forked from this one, which has imported what they need.

    echo test_gather | python -m tests.torch_backend.suite.serve gloo 2 60

prints an `Outcome` a line, as JSON: here, of the tests named on standard input on 2 ranks, each given 60 s.
"""

from __future__ import annotations

import faulthandler
import gc
import io
import json
import logging
import multiprocessing
import os
import pickle
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import unittest

from tests.torch_backend.suite import faces
from tests.torch_backend.suite.outcomes import FAIL, PASS, SKIP, Outcome
from tests.torch_backend.suite.sessions import end_session, has_gloo_thread, signal_session

LOOK_EVERY_S = 0.05
LOOKS = 8
"""In which a thread of Gloo's must be seen on ringtree: those of one rank, which sends nothing, are soon renamed."""


def main(face: str, ranks: int, limit_s: float) -> None:
    faces.put_on(face, ranks)
    from torch.testing._internal import common_distributed

    from tests.torch_backend.suite import cases

    multiprocessing.set_start_method("fork")
    logging.getLogger(common_distributed.__name__).setLevel(logging.CRITICAL)
    if face == faces.RINGTREE:
        faces.open_profiling_gates()
    gc.freeze()  # what is imported stays, and stays shared with the processes to come
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    for name in sys.stdin.read().split():
        outcome = _outcome(cases.load(name), name, face, limit_s)
        out.write(json.dumps(outcome._asdict()) + "\n")
        out.flush()


def _outcome(tests: unittest.TestSuite, name: str, face: str, limit_s: float) -> Outcome:
    began = time.monotonic()
    ours, theirs = os.pipe()
    folder = tempfile.mkdtemp(prefix="ringtree-suite-")  # no object that removes it in a forked process too
    with tempfile.TemporaryFile() as log:
        child = os.fork()
        if child == 0:
            os.close(ours)
            _run_and_report(tests, theirs, log.fileno(), folder)
        os.close(theirs)
        pickled, gloo = _listen(child, ours, began + limit_s, 1 if face == faces.GLOO else LOOKS)
        os.close(ours)
        log.seek(0)
        story = log.read().decode(errors="replace")
    shutil.rmtree(folder, ignore_errors=True)
    took_s = round(time.monotonic() - began, 2)
    status, reason = pickle.loads(pickled) if pickled else (FAIL, f"did not end within {limit_s:g} s\n{story[-20000:]}")
    if gloo and face != faces.GLOO and status == PASS:
        status, reason = FAIL, "a thread of Gloo's was seen"
    if status == FAIL and pickled:
        reason += f"\n{story[-20000:]}"
    [first, *_] = tests
    return Outcome(name, status, reason, int(first.world_size), took_s, gloo)


def _listen(child: int, pipe: int, until: float, needed: int) -> tuple[bytes, bool]:
    """The test's pickled report, empty where none came by `until` (of time.monotonic); and whether a process of it had
    a thread of Gloo's, seen at so many looks after one another. Ends all its processes."""
    pickled, looks, gloo = b"", 0, False
    while time.monotonic() < until:
        ready = select.select([pipe], [], [], LOOK_EVERY_S)[0]
        looks = looks + 1 if has_gloo_thread(child) else 0
        gloo = gloo or looks >= needed
        if ready:
            read = os.read(pipe, 1 << 16)
            if not read:
                break
            pickled += read
    else:
        pickled = b""
        signal_session(child, signal.SIGUSR1)
        time.sleep(1.0)
    end_session(child)
    os.waitpid(child, 0)
    return pickled, gloo


def _run_and_report(tests: unittest.TestSuite, pipe: int, log: int, folder: str) -> None:
    os.setsid()
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout = sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb", 0, closefd=False), write_through=True)
    faulthandler.register(signal.SIGUSR1)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    try:
        verdict = _run(tests)
    except BaseException:  # noqa: BLE001  # the driver's own, reported as the test's
        verdict = FAIL, traceback.format_exc()
    os.write(pipe, pickle.dumps(verdict))
    os._exit(0)


def _run(tests: unittest.TestSuite) -> tuple[str, str]:
    result = unittest.TestResult()
    tests.run(result)
    for _, story in result.failures + result.errors:
        return FAIL, story
    for _, reason in result.skipped:
        return SKIP, reason
    return PASS, ""


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
