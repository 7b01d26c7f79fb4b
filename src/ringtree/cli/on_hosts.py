"""A command as the ranks of several hosts: `ringtree bench --hosts`, and those of `tune` and `doctor`."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence

from ringtree.runtime.launch.hosts import launcher
from ringtree.runtime.launch.hosts.link import SSH
from ringtree.runtime.launch.hosts.placement import Slots, hosts_of, placed

MODULE = "ringtree.cli"
HERE = ("--hosts", "--ssh", "--python")
"""The options that are not the ranks'."""


def run_on_each(args: argparse.Namespace, least: int = 1) -> int:
    """Starts the same command as one rank of each host, whatever its slots, and returns its exit code. ValueError for
    fewer than `least` different hosts."""
    names = list(dict.fromkeys(name for name, _ in hosts_of(args.hosts)))
    if len(names) < least:
        raise ValueError(f"--hosts {args.hosts}: expected {least} different hosts at least, such as --hosts a,b")
    return _run(args, [(name, 1) for name in names], args.command_line)


def same_hosts(args: argparse.Namespace, *words: str) -> str:
    """These words as a command line of a shell, with the options of `args` that name hosts and the way to them."""
    given = {"--hosts": args.hosts, "--ssh": args.ssh, "--python": args.python}
    options = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    return shlex.join([*words, *options])


def ranks(args: argparse.Namespace) -> int:
    """The ranks on the hosts: one in each slot, or the number of --ranks. ValueError for several numbers, and for a
    single rank."""
    if args.ranks and len(args.ranks) > 1:
        raise ValueError(f"-n {','.join(map(str, args.ranks))} with --hosts: expected one number of ranks")
    found: int = args.ranks[0] if args.ranks else sum(count for _, count in hosts_of(args.hosts))
    if found < 2:
        asked = f"-n {found}" if args.ranks else f"--hosts {args.hosts}"
        raise ValueError(f"{asked}: expected 2 ranks at least, such as --hosts a:1,b:1")
    return found


def run_in_slots(args: argparse.Namespace, ranks: int) -> int:
    """Starts the same command as that many ranks in the slots of the hosts, and returns its exit code."""
    return _run(args, hosts_of(args.hosts), without(args.command_line, ("-n", "--ranks")), ranks)


def _run(args: argparse.Namespace, slots: list[Slots], words: Sequence[str], ranks: int | None = None) -> int:
    program = launcher.HostedProgram(
        [MODULE, *without(words, HERE)],
        module=True,
        ssh=SSH if args.ssh is None else args.ssh,
        python=args.python,
        prefixed=False,
        caller=args.command,
    )
    return launcher.run(program, placed(slots, ranks))


def without(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """The words of a command line without these options and their values."""
    kept, rest = list[str](), iter(words)
    for word in rest:
        if word in options:
            next(rest, None)
        elif not any(word.startswith(f"{name}=" if name.startswith("--") else name) for name in options):
            kept.append(word)
    return kept
