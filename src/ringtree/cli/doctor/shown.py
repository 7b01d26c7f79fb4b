"""The result as lines of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isnan
from typing import Any

from ringtree.cli.doctor.check import State
from ringtree.cli.table import aligned
from ringtree.draw.text.lines import Line, TextSpan
from ringtree.ir.units import bandwidth, count, duration

ROLES = {State.OK.value: "kept", State.NOTE.value: "new", State.PROBLEM.value: "wrong"}
MOST_HOSTS, MOST_NAMES, MOST_SLOW = 16, 4, 8
"""Hosts of a matrix that is printed, and of those that have a row in common; slow links."""


def lines(result: Mapping[str, Any]) -> Iterator[Line]:
    """The rows of the first host, those that are worse elsewhere, what was found between hosts, the matrices."""
    hosts = result["hosts"]
    yield (TextSpan(hosts[0]["name"], "head"),)
    yield from _sections(hosts[0]["checks"])
    if further := _elsewhere(hosts):
        yield ()
        yield (TextSpan("other hosts", "head"),)
        yield from _rows(further)
    if result["findings"]:
        yield ()
        yield (TextSpan("between hosts", "head"),)
        yield from _rows(_first_few(result["findings"]))
    if result["links"]:
        yield from _matrices([host["name"] for host in hosts], result["links"])
    yield ()
    notes, problems = result["notes"], result["problems"]
    role = ROLES["problem" if problems else "note" if notes else "ok"]
    yield (TextSpan(f"{count(problems, 'problem')}, {count(notes, 'note')}", role),)


def _sections(rows: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    for section in dict.fromkeys(row["section"] for row in rows):
        yield ()
        yield (TextSpan(section, "faint"),)
        yield from _rows([row for row in rows if row["section"] == section])


def _rows(rows: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        state = row["state"]
        yield TextSpan(f"  {state:<7}  ", ROLES[state]), TextSpan(f"{row['name']:<{width}}  "), TextSpan(row["found"])
        for remedy in row["remedies"]:
            yield (TextSpan(f"{'':{width + 13}}{remedy}", "faint"),)


def _first_few(findings: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The findings without most of many slow links, which are in order: the worst first."""
    slow = [row for row in findings if row["name"] == "slow link"]
    left_out = slow[MOST_SLOW:]
    if not left_out:
        return list(findings)
    words = f"{count(len(left_out), 'further slow link')}; --json has all"
    state = max((row["state"] for row in left_out), key=list(ROLES).index)
    kept = [row for row in findings if row not in left_out]
    return [*kept, {"name": "slow links", "state": state, "found": words, "remedies": []}]


def _elsewhere(hosts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The notes and problems of other hosts that the first has not: each with the hosts that have it."""
    first = {(row["section"], row["name"], row["found"]) for row in hosts[0]["checks"]}
    found: dict[tuple[str, str, str], tuple[dict[str, Any], list[str]]] = {}
    for host in hosts[1:]:
        for row in host["checks"]:
            key = row["section"], row["name"], row["found"]
            if row["state"] != State.OK.value and key not in first:
                found.setdefault(key, (row, []))[1].append(host["name"])
    return [{**row, "name": f"{named(names)}: {row['name']}"} for row, names in found.values()]


def named(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _matrices(names: Sequence[str], links: Mapping[str, Any]) -> Iterator[Line]:
    each, took = duration(links["pair_budget_s"]), duration(links["took_s"])
    yield ()
    yield (TextSpan(f"links: every two of {len(names)} hosts, {each} for each pair, {took} in all", "head"),)
    if len(names) > MOST_HOSTS:
        yield (TextSpan("too many hosts to print; --json and --html have the matrices"),)
        return
    yield from _matrix("latency, one way", names, links["latency_s"], duration)
    yield from _matrix("bandwidth, from row to column", names, links["bandwidth_Bps"], bandwidth)


def _matrix(
    title: str, names: Sequence[str], values: Sequence[Sequence[float | None]], shown: Callable[[float], str]
) -> Iterator[Line]:
    yield ()
    cells = [
        [name, *("-" if value is None or isnan(value) else shown(value) for value in row)]
        for name, row in zip(names, values, strict=True)
    ]
    head, *rest = aligned([[title, *names], *cells], 1)
    yield (TextSpan(head, "faint"),)
    for line in rest:
        yield (TextSpan(line),)
