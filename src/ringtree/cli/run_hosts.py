"""Starting a program as ranks of several hosts: `ringtree run --hosts`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from ringtree.runtime import settings
from ringtree.runtime.bootstrap.environment import INTERFACE
from ringtree.runtime.launch.hosts import launcher
from ringtree.runtime.launch.hosts.link import SSH
from ringtree.runtime.launch.hosts.placement import hosts_of, placed


def run(args: argparse.Namespace, words: Sequence[str], proved: Callable[[str | None, int], str | None]) -> int:
    """Starts the ranks on their hosts and waits for them; returns the exit code. `proved`: proves the algorithm for a
    number of ranks."""
    named = launcher.named_variables(args.env, os.environ)
    for line in settings.check({name: value for name, value in named.items() if name != INTERFACE}):
        print(f"ringtree run: {line}", file=sys.stderr)
    hosts = placed(hosts_of(args.hosts), args.ranks)
    program = launcher.HostedProgram(
        words,
        module=args.module,
        ssh=SSH if args.ssh is None else args.ssh,
        python=args.python,
        interface=args.interface,
        env=args.env,
        algorithm=proved(args.algorithm, sum(len(host.ranks) for host in hosts)),
    )
    return launcher.run(program, hosts, args.trace)
