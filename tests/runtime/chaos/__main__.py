"""Random faults on 2 to 8 ranks, in random scripts of calls: nobody may hang, get a wrong result, or leave anything.

    python -m tests.runtime.chaos --count 1000                1000 cases from a random seed
    python -m tests.runtime.chaos --seed 7 --count 1          the case of seed 7 alone, with what its ranks reported
    python -m tests.runtime.chaos --hosts --count 100         on two or three hosts, whose links and ranks may stop, too
    python -m tests.runtime.chaos --torch --count 100         ranks that call torch.distributed

Case i of a campaign is the case of seed + i. Printed are, by fault, the time from the fault to each survivor's errors,
and which of them named another rank than the culprit. The exit status is 1 where a rank hung, a result was wrong,
something was left behind, or more than --misnamed of the errors named another.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from datetime import date
from pathlib import Path

from ringtree.bench.machine import describe, usable_cores
from ringtree.files.replacing import replace_with_json
from tests.runtime.chaos.campaign import TIMEOUT_OVER_HOSTS_S, TIMEOUT_S, campaign
from tests.runtime.chaos.case import drawn, drawn_over_hosts, drawn_through_torch
from tests.runtime.chaos.leftovers import files
from tests.runtime.chaos.summary import Summary, failure
from tests.runtime.chaos.verdict import Verdict
from tests.runtime.hosts.lab import missing as missing_hosts
from tests.runtime.soak.through_torch import missing as missing_torch

MOST_MISNAMED = 0.05
"""The share of survivors' errors that may name another rank than the culprit."""
MOST_MISNAMED_OVER_HOSTS = 0.5
"""The same over hosts, in a dozen cases: one in which a rank never comes has many."""
PROGRESS = 50


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    seed = int.from_bytes(os.urandom(4), "little") if options.seed is None else options.seed
    print(f"seeds {seed} to {seed + options.count - 1}, {options.jobs} at a time", flush=True)
    began_s, before, summary = time.monotonic(), files(), Summary()
    draw = drawn_over_hosts if options.hosts else drawn_through_torch if options.torch else drawn
    if options.torch and (why := missing_torch()):
        print(f"not run: ranks that call torch.distributed: {why}")
        return 0
    if options.hosts and (why := missing_hosts()):
        print(f"not run: ranks on several hosts: {why}")
        return 0
    timeout_s = options.timeout_s or (TIMEOUT_OVER_HOSTS_S if options.hosts else TIMEOUT_S)
    for verdict in campaign([draw(seed + number) for number in range(options.count)], options.jobs, timeout_s):
        summary.add(verdict)
        if text := failure(verdict):
            print(text, flush=True)
        if options.count == 1:
            print(_whole(verdict))
        if len(summary.verdicts) % PROGRESS == 0:
            print(f"{len(summary.verdicts)} cases: {summary.brief()}", flush=True)
    if more := files() - before:
        print(f"files in /dev/shm that were not there before: {', '.join(sorted(more))}")
    print(summary.misnamings(), summary.phrases(), summary.table(), sep="\n")
    most = MOST_MISNAMED_OVER_HOSTS if options.hosts else MOST_MISNAMED
    if options.misnamed is not None:
        most = options.misnamed
    took_s = time.monotonic() - began_s
    print(f"{options.count} cases in {took_s:.0f} s; {summary.brief()}, of which {most:.0%} may be")
    if options.json:
        replace_with_json(
            options.json,
            {
                "machine": describe(), "date": f"{date.today():%d %B %Y}".lstrip("0"), "seed": seed,
                "cases": options.count, "at_a_time": options.jobs, "timeout_s": timeout_s,
                "by_fault": summary.rows(), "misnamed": summary.misnamings().splitlines(),
            },
        )  # fmt: skip
    return int(bool(summary.failures() or more or summary.misnamed_share > most))


def _whole(verdict: Verdict) -> str:
    """All that was found out about one case."""
    lines = [str(verdict.case), f"fault: {verdict.what or 'none'}"]
    for heard in sorted(verdict.heard, key=lambda heard: heard.after_s):
        raised = heard.raised
        lines.append(
            f"{heard.after_s:7.3f} s, rank {heard.rank}, thread {raised.thread}, step {raised.step}, {raised.call}:\n"
            f"          {raised.kind}: {raised.text}"
        )
    return "\n".join([*lines, f"{verdict.took_s:.2f} s in all"])


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.runtime.chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000, help="of cases (default 1000)")
    parser.add_argument("--seed", type=int, help="of the first case (default: any)")
    parser.add_argument("--jobs", type=int, default=usable_cores(), help="cases at a time (default: cores)")
    parser.add_argument("--hosts", action="store_true", help="on hosts that are namespaces, which needs root")
    parser.add_argument("--torch", action="store_true", help="ranks call torch.distributed")
    parser.add_argument(
        "--timeout-s", type=float, help=f"of a wait (default {TIMEOUT_S:g}, over hosts {TIMEOUT_OVER_HOSTS_S:g})"
    )
    most = f"(default {MOST_MISNAMED:g}, over hosts {MOST_MISNAMED_OVER_HOSTS:g})"
    parser.add_argument("--misnamed", type=float, metavar="SHARE", help=f"of errors that may name another {most}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep a record")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
