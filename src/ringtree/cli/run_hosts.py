"""Starting a program as ranks of several hosts: `ringtree run --hosts`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from ringtree.runtime.launch.hosts import launcher
from ringtree.runtime.launch.hosts.link import SSH
from ringtree.runtime.launch.hosts.placement import hosts_of, placed


def run(args: argparse.Namespace, words: Sequence[str], proved: Callable[[str | None, int], str | None]) -> int:
    """Starts the ranks on their hosts and waits for them; returns the exit code. `proved`: proves the algorithm for a
    number of ranks."""
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
