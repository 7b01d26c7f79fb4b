"""This host and the links to others, checked: `ringtree doctor`."""

from __future__ import annotations

import argparse
import json
import socket
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from ringtree.bench.host_links import HostLinks
from ringtree.bench.network import first_ranks
from ringtree.cli import terminal
from ringtree.cli.arguments.destination import check_destination, check_destinations, write_page
from ringtree.cli.doctor import group, shown
from ringtree.cli.doctor.between import TUNE, findings
from ringtree.cli.doctor.check import Check, CheckedHost, State
from ringtree.cli.doctor.this_host import check_host
from ringtree.cli.options.hosts import ON_HOSTS, are_given
from ringtree.ir.units import count
from ringtree.pages.doctor_page import doctor_page
from ringtree.runtime.bootstrap.environment import World, detect, leave_launcher

FORM = 1
"""The version of the JSON's form."""
SECTION = "hosts"


def run(args: argparse.Namespace) -> int:
    """Checks this host, and with a launcher's ranks their hosts and the links between them. Only rank 0 prints.
    Returns 1 where there is a problem."""
    if not args.seconds > 0:
        raise ValueError(f"--seconds {args.seconds:g}: expected more than 0")
    if are_given(args):
        check_destinations(args, args.html)
        on_hosts = import_module(ON_HOSTS)
        args.command_line = [*args.command_line, "--tune-command", on_hosts.same_hosts(args, *TUNE.split())]
        started: int = on_hosts.run_on_each(args)
        return started
    try:
        world, contradiction = detect(meets=True), ""
    except ValueError as error:  # the launcher's variables contradict each other
        world, contradiction = None, str(error)
    if args.html and (world is None or world.rank == 0):
        check_destination(args.html)
    result = _alone(_failed(contradiction)) if world is None else _result(world, args.seconds, args.tune_command)
    if result is None:
        return 0  # another rank than 0
    if args.json:
        print(json.dumps(result, indent=2, allow_nan=False))
    elif args.html:
        try:
            write_page(args.html, doctor_page(result))
        except (OSError, ValueError):  # what was found is not lost with the page
            terminal.show(shown.lines(result))
            raise
    else:
        terminal.show(shown.lines(result))
    return 1 if result["problems"] else 0


def _result(world: World, seconds: float, tune: str) -> dict[str, Any] | None:
    """All that was found, as JSON writes it; None on another rank than 0. Where that cannot join it prints why and
    does not fail: launchers end all ranks with the first that fails, and rank 0 has not shown its rows yet."""
    if world.size == 1:
        return _alone()
    try:
        comm = group.meet()
    except (RuntimeError, ValueError, OSError, MemoryError) as error:
        if world.rank:
            print(f"ringtree doctor: rank {world.rank} did not join: {error}", file=sys.stderr)
            return None
        return _alone(_failed(f"the {count(world.size, 'rank')} of {world.launcher} did not meet: {error}"))
    try:
        return _together(comm, seconds, tune)
    except (RuntimeError, OSError) as error:
        return None if world.rank else _alone(_failed(f"the ranks met, and then failed: {error}"))
    finally:
        comm.close()
        leave_launcher()


def _failed(why: str) -> Check:
    return Check(SECTION, "ranks", State.PROBLEM, why)


def _alone(*further: Check) -> dict[str, Any]:
    rows = [row.as_json() for row in check_host(CheckedHost())]
    return _document([{"host": 0, "name": socket.gethostname(), "ranks": [], "checks": rows}], None, further)


def _together(comm: Any, seconds: float, tune: str) -> dict[str, Any] | None:
    """The hosts' rows, their links, and what was found between them, on rank 0."""
    mine = None
    if group.speaks(comm):
        ranks = [rank for rank, host in enumerate(comm.hosts) if host == comm.hosts[comm.rank]]
        rows = [row.as_json() for row in check_host(CheckedHost())]
        mine = {"host": comm.hosts[comm.rank], "name": socket.gethostname(), "ranks": ranks, "checks": rows}
    hosts = group.gather_hosts(comm, mine)
    try:
        links, failure = group.links(comm, seconds), None
    except (RuntimeError, TimeoutError) as error:
        links, failure = None, Check(SECTION, "links", State.PROBLEM, f"the measurement failed: {error}")
    if hosts is None:
        return None
    _name(hosts)
    words = f"{count(comm.size, 'rank')} on {count(len(first_ranks(comm.hosts)), 'host')} met"
    found = [Check(SECTION, "ranks", State.OK, words), *([failure] if failure else [])]
    return _document(hosts, links, [*found, *findings(hosts, links, tune)])


def _name(hosts: Sequence[dict[str, Any]]) -> None:
    """Gives hosts of one name a number each."""
    names = [host["name"] for host in hosts]
    for host in hosts:
        if names.count(host["name"]) > 1:
            host["name"] = f"{host['name']}#{host['host']}"


def _document(hosts: Sequence[dict[str, Any]], links: HostLinks | None, further: Sequence[Check]) -> dict[str, Any]:
    found = [check.as_json() for check in further]
    rows = [*found, *(row for host in hosts for row in host["checks"])]
    alike = {(row["section"], row["name"], row["found"]): row["state"] for row in rows}  # on all hosts, counted once
    states = list(alike.values())
    return {
        "form": FORM,
        "problems": states.count(State.PROBLEM.value),
        "notes": states.count(State.NOTE.value),
        "hosts": list(hosts),
        "findings": found,
        "links": None if links is None else _links(links),
    }


def _links(links: HostLinks) -> dict[str, Any]:
    return {
        "latency_s": _matrix(links.latency_s),
        "bandwidth_Bps": _matrix(links.bandwidth_Bps),
        "ways": links.ways,
        "pair_budget_s": links.pair_s,
        "took_s": links.took_s,
    }


def _matrix(values: np.ndarray[Any, Any]) -> list[list[float | None]]:
    """Rows of numbers; None on the diagonal."""
    return [[None if np.isnan(value) else float(value) for value in row] for row in values]
