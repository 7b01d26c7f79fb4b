"""The interfaces of this host, and the one by which other hosts would reach it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from ringtree.cli.doctor.check import Check, CheckedHost, State
from ringtree.ir.units import count, line_rate
from ringtree.machines.host.interfaces import NetworkInterface, network_interfaces
from ringtree.runtime.bootstrap.environment import ADDRESS, INTERFACE, rendezvous_address
from ringtree.runtime.bootstrap.network.addresses import is_loopback
from ringtree.runtime.bootstrap.network.interfaces import VIRTUAL, interface_addresses, leading_interface

SECTION = "network"
FASTER = 1.5
"""An interface of so many times the chosen one's rate is a better choice."""
MOST_SHOWN = 12


def interfaces(host: CheckedHost) -> Iterator[Check]:
    """Each interface; those without a card and an address together in one row."""
    there = network_interfaces(host.sysfs)
    addresses = addresses_by_name()
    if not there:
        words = ", ".join(f"{name} ({', '.join(found)})" for name, found in addresses.items()) or "none"
        yield Check(SECTION, "interfaces", State.NOTE, f"/sys does not list them; with an address: {words}")
        return
    shown = [one for one in there if one.physical or one.name in addresses][:MOST_SHOWN]
    for one in shown:
        found = addresses.get(one.name, [])
        figures = {**asdict(one), "addresses": found, "containers": one.name.startswith(VIRTUAL)}
        yield Check(SECTION, one.name, State.OK, _words(one, found), (), figures)
    if rest := [one.name for one in there if one not in shown]:
        listed = ", ".join(rest[:6]) + (", …" if len(rest) > 6 else "")
        yield Check(SECTION, "others", State.OK, f"{count(len(rest), 'interface')}: {listed}", (), {"names": rest})


def _words(one: NetworkInterface, addresses: list[str]) -> str:
    kind = {"device": one.driver, "loopback": "this host only"}.get(one.kind, one.kind)
    if one.name.startswith(VIRTUAL):
        kind = f"{kind}, joins containers of this host"
    rate = line_rate(one.rate_Bps) if one.rate_Bps and one.physical else "rate unknown" if one.physical else ""
    below = f"of {', '.join(one.lower)}" if one.lower else ""
    parts = ["up" if one.up else "down", rate, f"MTU {one.mtu_bytes}", kind, below, *(addresses or ["no address"])]
    return ", ".join(filter(None, parts))


def chosen(host: CheckedHost) -> Iterator[Check]:
    """The interface by which other hosts would reach this one, and whether another would be better."""
    towards = ""
    try:
        with contextlib.suppress(ValueError):  # the variable's own row has it
            address = rendezvous_address(host.env)
            towards = address[0] if isinstance(address, tuple) else ""
        found, why = leading_interface(towards, host.env)
    except ValueError as error:
        yield Check(SECTION, "chosen", State.NOTE, f"unknown: {error}")
        return
    except OSError as error:
        words = f"{ADDRESS} names {towards}, which has no address here: {error.strerror}"
        yield Check(SECTION, "chosen", State.PROBLEM, words, (f"getent hosts {towards}",))
        return
    there = {one.name: one for one in network_interfaces(host.sysfs)}
    bad = State.PROBLEM if towards else State.NOTE
    if found is None:
        down = next((one.name for one in there.values() if one.physical and not one.up), "")
        yield Check(SECTION, "chosen", bad, why, (f"ip link set {down} up",) if down else ())
        return
    words = f"{found.name} ({found.address}): {why}"
    figures = {"interface": found.name, "address": found.address, "why": why}
    if towards and is_loopback(towards):
        yield Check(SECTION, "chosen", State.OK, f"{words}, which only ranks of this host reach", (), figures)
        return
    addresses = addresses_by_name()
    better = better_interface(found.name, there, addresses)
    remedies = (f"export {INTERFACE}={better}",) if better else ()
    if found.loopback:
        yield Check(SECTION, "chosen", bad, f"{words}; no other host reaches it", remedies, figures)
    elif found.virtual:
        words += "; it joins containers of this host, and other hosts seldom reach it"
        yield Check(SECTION, "chosen", bad, words, remedies, figures)
    elif better:
        rate = line_rate(there[better].rate_Bps)
        words += f"; its rate is {line_rate(there[found.name].rate_Bps)}, {better} ({addresses[better][0]}) has {rate}"
        yield Check(SECTION, "chosen", State.NOTE, words, remedies, figures)
    else:
        yield Check(SECTION, "chosen", State.OK, words, (), figures)


def better_interface(name: str, there: Mapping[str, NetworkInterface], addresses: Mapping[str, Sequence[str]]) -> str:
    """The fastest interface that is up, has an address, and a card of a much higher rate than `name`; in place of one
    that joins containers, or of the loopback interface, any that does neither. "" where there is none."""
    mine = there.get(name)
    others = [one for one in there.values() if one.name != name and one.up and addresses.get(one.name)]
    outward = [one for one in others if one.kind != "loopback" and not one.name.startswith(VIRTUAL)]
    best = max(outward, key=lambda one: (one.physical, one.rate_Bps), default=None)
    if best is None or mine is None:
        return ""
    if mine.kind == "loopback" or name.startswith(VIRTUAL):
        return best.name
    faster = best.physical and mine.physical and mine.rate_Bps and best.rate_Bps > FASTER * mine.rate_Bps
    return best.name if faster else ""


def addresses_by_name() -> dict[str, list[str]]:
    """The numeric addresses of each interface that is up."""
    found: dict[str, list[str]] = {}
    for one in interface_addresses():
        found.setdefault(one.name, []).append(one.address)
    return found
