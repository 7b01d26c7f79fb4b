"""The command as one rank on each of several hosts: `ringtree doctor --hosts`."""

from __future__ import annotations

import argparse

from ringtree.runtime.launch.hosts import launcher
from ringtree.runtime.launch.hosts.link import SSH
from ringtree.runtime.launch.hosts.placement import hosts_of, placed

MODULE = "ringtree.cli"


def run(args: argparse.Namespace) -> int:
    """Starts the same command on the hosts, and returns its exit code. A host has one rank, whatever its slots."""
    one_each = [(name, 1) for name in dict.fromkeys(name for name, _ in hosts_of(args.hosts))]
    program = launcher.HostedProgram(
        [MODULE, *words(args)],
        module=True,
        ssh=SSH if args.ssh is None else args.ssh,
        python=args.python,
        prefixed=False,
        caller="doctor",
    )
    return launcher.run(program, placed(one_each, None))


def words(args: argparse.Namespace) -> list[str]:
    """The command line of those options."""
    page = ["--html", str(args.html.absolute())] if args.html else []
    return ["doctor", "--seconds", f"{args.seconds:g}", *(["--json"] if args.json else []), *page]
