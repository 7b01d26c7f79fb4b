"""Starting a program as ranks: `ringtree run`."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module

from ringtree.cli import arguments
from ringtree.runtime import settings
from ringtree.runtime.bootstrap.environment import INTERFACE, MOST_RANKS
from ringtree.runtime.launch import launch
from ringtree.runtime.launch.torch_variables import REPLACES

OVER_HOSTS = "ringtree.cli.run_hosts"
"""The module that starts ranks on several hosts, loaded where --hosts is given."""

FOR_HOSTS = ("ssh", "python", "interface", "env")
"""Options that --hosts alone has a use for."""


def run(args: argparse.Namespace) -> int:
    """Starts the ranks and waits for them. Returns the exit code of the rank that failed first, else 0."""
    program = args.program[1:] if args.program[:1] == ["--"] else args.program
    elsewhere = {INTERFACE} if args.hosts is not None else set()  # hosts may have interfaces that this one has not
    for line in settings.check({name: value for name, value in os.environ.items() if name not in elsewhere}):
        print(f"ringtree run: {line}", file=sys.stderr)
    if args.trace:
        arguments.check_destinations(args, args.trace, others=program[:1])
    if args.replace:
        os.environ[REPLACES] = args.replace  # which the ranks inherit, on other hosts too
    if args.elastic and args.hosts is not None:
        raise ValueError("--elastic is for ranks on this host; expected no --hosts beside it")
    if args.max_restarts and not args.elastic:
        raise ValueError("--max-restarts starts ranks again that join the others; expected --elastic beside it")
    if args.max_restarts < 0:
        raise ValueError(f"--max-restarts {args.max_restarts}: expected 0 or more")
    if args.ranks is not None and args.ranks < 1:
        raise ValueError(f"-n/--ranks {args.ranks}: expected at least 1")
    if args.hosts is not None:
        started: int = import_module(OVER_HOSTS).run(args, program, proved)
        return started
    if alone := next((name for name in FOR_HOSTS if getattr(args, name) not in (None, [])), None):
        raise ValueError(f"--{alone} is for ranks on several hosts; expected --hosts beside it")
    if args.ranks is None:
        raise ValueError("expected a number of ranks (-n N) or hosts (--hosts a:4,b:4)")
    if args.ranks > MOST_RANKS:
        raise ValueError(f"-n/--ranks {args.ranks}: expected at most {MOST_RANKS}, the most ranks of a group")
    algorithm = proved(args.algorithm, args.ranks)
    return launch.run(
        program,
        args.ranks,
        module=args.module,
        trace=args.trace,
        algorithm=algorithm,
        elastic=args.elastic,
        restarts=args.max_restarts,
    )


def proved(algorithm: str | None, ranks: int) -> str | None:
    """The algorithm, which serves that many ranks: as the ranks' variable names it."""
    return arguments.proved(algorithm, ranks) if algorithm and ranks > 0 else None
