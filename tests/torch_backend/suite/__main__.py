"""Runs PyTorch's suite on Gloo and on ringtree, and compares test by test.

    python -m tests.torch_backend.suite                         # all of it; writes the record and the table
    python -m tests.torch_backend.suite -k gather -f ringtree   # a look at some of it
    python -m tests.torch_backend.suite --hosts 2               # its ranks take turns on two hosts of a lab; no record

The exit status is 1 where a test passes on Gloo and not here. What a test that failed wrote is in build/torch_suite.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

from tests.runtime.hosts.lab import Lab
from tests.torch_backend.suite.faces import FACES
from tests.torch_backend.suite.outcomes import FAIL, Outcome
from tests.torch_backend.suite.running import ROOT, names, run
from tests.torch_backend.suite.table import Rows, as_json, brief, markdown, summary, unseen, worse

RECORD = ROOT / "benchmarks" / "torch_suite.json"
TABLE = ROOT / "docs" / "torch_suite.md"
HOSTS = "SUITE_HOSTS"
"""As in `ranks`, which needs torch."""
IN_A_LAB = {"GLOO_SOCKET_IFNAME": "eth0"}
"""The names of a lab's hosts are in no table."""
LOGS = ROOT / "build" / "torch_suite"


def main() -> int:
    options = _options()
    if options.hosts == 1:
        return _run(options)
    with Lab(options.hosts) as lab:
        os.environ.update({HOSTS: json.dumps([lab.namespaces(host) for host in range(lab.hosts)])}, **IN_A_LAB)
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    rows: Rows = {}
    tests = [name for name in names() if options.k in name]
    for face in options.face or FACES:
        for outcome in run(face, tests, options.limit_s, options.jobs):
            rows.setdefault(outcome.name, {})[face] = outcome
            _report(face, outcome)
    if not options.face and not options.k and options.hosts == 1:
        import torch

        RECORD.write_text("[\n" + ",\n".join(json.dumps(row) for row in as_json(rows)) + "\n]\n")
        TABLE.write_text(markdown(rows, torch.__version__.split("+")[0]))
    print(summary(rows))
    lost = [*worse(rows), *unseen(rows)]
    for line in lost:
        print(line, file=sys.stderr)
    return 1 if lost else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", default="", metavar="PART", help="only tests with this in their name")
    parser.add_argument("-f", "--face", action="append", choices=FACES, help="only on this backend")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="tests at once")
    parser.add_argument("--limit-s", type=float, default=120.0, help="what a test may take")
    parser.add_argument("--hosts", type=int, default=1, help="spread the ranks of a test over as many hosts of a lab")
    return parser.parse_args()


def _report(face: str, outcome: Outcome) -> None:
    print(f"{outcome.status} {outcome.took_s:7.2f} s  {face}: {outcome.name}  {brief(outcome.reason)}", flush=True)
    if outcome.status == FAIL:
        folder = LOGS / face.replace(" ", "_")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{outcome.name}.txt").write_text(outcome.reason)


if __name__ == "__main__":
    sys.exit(main())
