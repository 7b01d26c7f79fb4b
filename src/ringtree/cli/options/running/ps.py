"""List the groups of ranks that run on this machine, this user's own: who is where, and who waits for whom.

    ringtree ps
    ringtree ps --json groups.json
    ringtree ps --hosts a,b                        of these hosts, as `ringtree run --hosts` reaches them

For each rank its process, the call that it has waited in for more than 50 ms, since when and for whom; else the last
collective that it has begun. Groups made from others are shown by the waits in them. Nothing is disturbed: the state is
read from the groups' memory, no port is opened, and other users' processes are not looked at.

With --hosts, a process on each host lists that host's groups and ends; it is started as `ringtree run --hosts` starts
its agents, by ssh, and of other hosts' groups only those of the user are shown as whom ssh logs in. FILE is a hostfile;
slots (a:4) mean nothing here. Hosts have 10 s to answer; each that does not is reported, and the exit code is 1.
"""

from __future__ import annotations

import argparse

from ringtree.cli.options.files import MayBeFile, to_write


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree ps`."""
    parser.add_argument(
        "--hosts", type=MayBeFile, metavar="a,b|FILE", help="list the groups of these hosts, as of `ringtree run`"
    )
    parser.add_argument("--ssh", metavar="COMMAND", help="reach other hosts by COMMAND, as 'ssh -p 2222' (default ssh)")
    parser.add_argument("--python", metavar="PATH", help="Python on the other hosts (default: the path of this one)")
    parser.add_argument("--json", type=to_write, metavar="FILE", help="also write the groups as JSON")
