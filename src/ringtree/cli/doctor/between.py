"""Findings between hosts: slow links, wrong interfaces, versions that differ, a stale measurement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ringtree.bench.host_links import HostLinks
from ringtree.bench.slow_links import Slow, SlowLink, slow_links
from ringtree.cli.doctor.check import Check, State
from ringtree.cli.doctor.network import better_interface
from ringtree.cli.doctor.shown import named
from ringtree.ir.units import bandwidth, duration, line_rate
from ringtree.machines.host.interfaces import NetworkInterface
from ringtree.runtime.bootstrap.environment import INTERFACE
from ringtree.runtime.bootstrap.network.interfaces import VIRTUAL

SECTION = "hosts"
TUNE = "ringtree tune"
LOW_PART = 0.5
"""The part of a card's rate below which links are worth a note."""
STALE = 2.0
SAME = {
    ("software", "ringtree"): (("ringtree", "build"), State.PROBLEM),
    ("software", "python"): (("python", "numpy"), State.NOTE),
    ("software", "torch"): (("torch",), State.NOTE),
    ("wires", "wire"): (("wire",), State.PROBLEM),
    ("wires", "ucx"): (("version",), State.NOTE),
    ("resources", "cores"): (("usable_cores",), State.NOTE),
}
"""Figures that are the same on all hosts as a rule: by section and name, and how bad a difference is."""
Hosts = Sequence[Mapping[str, Any]]


def findings(hosts: Hosts, links: HostLinks | None, tune: str = TUNE) -> list[Check]:
    """The rows about several hosts. `tune`: the command that measures their network."""
    if len(hosts) < 2:
        return []
    found = [*_differences(hosts)]
    if links is None:
        return found
    return [
        *found,
        *_interfaces(hosts, links),
        *_slow(hosts, links),
        *_rates(hosts, links),
        *_tuned(hosts, links, tune),
    ]


def _differences(hosts: Hosts) -> Iterator[Check]:
    """Figures that differ between hosts."""
    for (section, name), (keys, state) in SAME.items():
        for key in keys:
            values: dict[str, list[str]] = {}
            for host in hosts:
                values.setdefault(str(_figures(host, section, name).get(key)), []).append(host["name"])
            if len(values) > 1:
                words = "; ".join(f"{value} on {named(names)}" for value, names in values.items())
                yield Check(SECTION, key.replace("_", " "), state, f"differs: {words}", (), {"values": values})


def _figures(host: Mapping[str, Any], section: str, name: str) -> Mapping[str, Any]:
    rows = (row for row in host["checks"] if row["section"] == section and row["name"] == name)
    found: Mapping[str, Any] = next(rows, {"figures": {}})["figures"]
    return found


def _cards(host: Mapping[str, Any]) -> tuple[dict[str, NetworkInterface], dict[str, list[str]]]:
    """A host's interfaces, and their addresses, from its rows."""
    there, addresses = {}, {}
    for row in host["checks"]:
        figures = row["figures"]
        if row["section"] == "network" and "mtu_bytes" in figures:
            fields = {key: value for key, value in figures.items() if key not in ("addresses", "containers")}
            there[figures["name"]] = NetworkInterface(**fields)
            addresses[figures["name"]] = figures["addresses"]
    return there, addresses


def _interfaces(hosts: Hosts, links: HostLinks) -> Iterator[Check]:
    """Hosts that others reach by an interface of containers, by loopback, or by one that is slower than another."""
    for number, host in enumerate(hosts):
        there, addresses = _cards(host)
        used: dict[tuple[str, str], list[int]] = {}
        for other, way in enumerate(links.ways[number]):
            if way:
                used.setdefault((way["interface"], way["address"]), []).append(other)
        for (name, address), others in used.items():
            better = better_interface(name, there, addresses)
            remedies = (f"export {INTERFACE}={better}",) if better else ()
            figures = {"host": number, "interface": name, "address": address, "better": better or None}
            to = named([hosts[other]["name"] for other in others])
            words = f"{host['name']} is joined to {to} through {name} ({address})"
            mine = there.get(name)
            if name.startswith(VIRTUAL) or (mine is not None and mine.kind == "loopback"):
                kind = "this host alone" if mine is not None and mine.kind == "loopback" else "containers of one host"
                state = State.PROBLEM if better else State.NOTE
                yield Check(SECTION, "interface", state, f"{words}, which is for {kind}", remedies, figures)
            elif better and mine is not None:
                rates = f"{line_rate(mine.rate_Bps)}; {better} has {line_rate(there[better].rate_Bps)}"
                yield Check(SECTION, "interface", State.NOTE, f"{words} of {rates}", remedies, figures)
    yield from _mtus(hosts, links)


def _mtus(hosts: Hosts, links: HostLinks) -> Iterator[Check]:
    """Interfaces in use whose MTUs differ."""
    found: dict[int, list[str]] = {}
    for number, host in enumerate(hosts):
        there, _ = _cards(host)
        for name in {way["interface"] for way in links.ways[number] if way}:
            if name in there:
                found.setdefault(there[name].mtu_bytes, []).append(f"{host['name']} ({name})")
    if len(found) > 1:
        words = "; ".join(f"{mtu} on {named(names)}" for mtu, names in sorted(found.items()))
        yield Check(
            SECTION, "MTU", State.NOTE, f"differs: {words}", (), {"mtus": {str(m): n for m, n in found.items()}}
        )


def _slow(hosts: Hosts, links: HostLinks) -> Iterator[Check]:
    """Hosts and pairs that are much slower than the usual."""
    found = slow_links(links.latency_s, links.bandwidth_Bps)
    names = [host["name"] for host in hosts]
    if found.two_speeds:
        words = (
            f"{found.two_speeds:.0%} of the links have less than half of {bandwidth(found.usual_Bps)}, the best links'"
        )
        yield Check(
            SECTION, "links", State.NOTE, f"{words}: the network has two speeds", (), {"part": found.two_speeds}
        )
    worst = sorted(found.named, key=lambda one: (one.other is not None, -abs(np.log(one.value / one.usual))))
    for one in worst:
        late = one.slow is Slow.LATENCY
        figures: dict[str, Any] = {"slow": one.slow.value, "host": one.host, "other": one.other}
        figures |= (
            {"value_s": one.value, "usual_s": one.usual} if late else {"value_Bps": one.value, "usual_Bps": one.usual}
        )
        name, state = "slow host" if one.other is None else "slow link", State.NOTE if late else State.PROBLEM
        yield Check(SECTION, name, state, _words(one, names), (), figures)


def _words(one: SlowLink, names: Sequence[str]) -> str:
    host, usual = names[one.host], one.usual
    if one.slow is Slow.LATENCY:
        where = f"{host}'s" if one.other is None else f"{host} and {names[one.other]}:"
        return f"{where} latency is {duration(one.value)}, usual are {duration(usual)}"
    rates = f"{bandwidth(one.value)}, usual are {bandwidth(usual)}"
    if one.other is None:
        return f"{host} {one.slow.value} {rates}"
    return f"from {host} to {names[one.other]} pass {rates}"


def _rates(hosts: Hosts, links: HostLinks) -> Iterator[Check]:
    """The usual bandwidth beside the rate of the cards in use."""
    rates = []
    for number, host in enumerate(hosts):
        there, _ = _cards(host)
        for name in {way["interface"] for way in links.ways[number] if way}:
            if name in there and there[name].physical and there[name].rate_Bps:
                rates.append(there[name].rate_Bps)
    usual = slow_links(links.latency_s, links.bandwidth_Bps).usual_Bps
    if rates and usual < LOW_PART * float(np.median(rates)):
        card = float(np.median(rates))
        words = f"{bandwidth(usual)} pass a link, {usual / card:.0%} of the cards' {line_rate(card)}"
        remedies = ("export RINGTREE_CONNECTIONS=8",)
        yield Check(SECTION, "rate", State.NOTE, words, remedies, {"usual_Bps": usual, "card_Bps": card})


def _tuned(hosts: Hosts, links: HostLinks, tune: str) -> Iterator[Check]:
    """The network in rank 0's file of `ringtree tune`, beside what was measured now."""
    figures = _figures(hosts[0], "settings", "tune")
    remedies = (tune,)
    before = figures.get("bandwidth_Bps")
    now = float(np.nanmedian(links.bandwidth_Bps))
    if before is None:
        words = "not in the file of `ringtree tune` on rank 0's host"
        words += ": start it as this command was started" if tune == TUNE else ""
        yield Check(SECTION, "network", State.NOTE, words, remedies)
    elif not 1 / STALE < now / before < STALE:
        words = f"stale: `ringtree tune` found {bandwidth(before)} on {figures['date']}, now it is {bandwidth(now)}"
        yield Check(SECTION, "network", State.NOTE, words, remedies, {"before_Bps": before, "now_Bps": now})
