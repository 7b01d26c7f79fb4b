"""A machine whose links have measured bandwidths and latencies.

A link of a machine is nominal, and `price` takes the payload's share of it. So a link is given the bandwidth of which
that share was measured. A path's measured rate is a statement about its narrowest links alone: each of these gets the
most that was seen over it, and the other links of the path at least as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import inf
from types import MappingProxyType

from ringtree.machines.link_figures import PAYLOAD, data_Bps, latency_s
from ringtree.machines.machine import Device, DeviceKind, Machine, Note, NoteKind, PathKind
from ringtree.machines.measured.copies_table import CopyMethod, CopyTable, Rate, Transfer
from ringtree.machines.measured.expected import COPIES_A_BYTE, Expected
from ringtree.machines.measured.findings import findings
from ringtree.machines.paths import Path

OVER_LINKS = (CopyMethod.PINNED, CopyMethod.PEER)
"""Copies that links limit, and no processor's copying."""


def fit(table: CopyTable) -> Machine:
    """The table's machine, fitted: links as measured, findings as notes. Links over which nothing was copied stay."""
    expected, rates = Expected(table), table.rates()
    over = list(_over_links(expected, rates))
    seen_Bps: dict[int, float] = {}
    at_least_Bps: dict[int, float] = {}
    for path, rate, _ in over:
        for n in expected.narrowest(path):
            seen_Bps[n] = max(seen_Bps.get(n, 0.0), rate.bandwidth_Bps)
        for n in path.links:
            at_least_Bps[n] = max(at_least_Bps.get(n, 0.0), rate.bandwidth_Bps)
    latencies_s = _latencies(table.machine, over)
    links = []
    for n, link in enumerate(table.machine.links):
        rate_Bps = seen_Bps.get(n) or max(at_least_Bps.get(n, 0.0), data_Bps(link))
        changed = n in seen_Bps or rate_Bps > data_Bps(link)
        bandwidth_Bps = rate_Bps / PAYLOAD.get(link.kind, 1.0) if changed else link.bandwidth_Bps
        links.append(replace(link, bandwidth_Bps=bandwidth_Bps, latency_s=latencies_s.get(n, link.latency_s)))
    devices = tuple(_device(table, rates, device) for device in table.machine.devices)
    notes = (*table.machine.notes, *_notes(table, len(seen_Bps)))
    return replace(table.machine, devices=devices, links=tuple(links), notes=notes)


def _over_links(expected: Expected, rates: Mapping[Transfer, Rate]) -> Iterator[tuple[Path, Rate, float]]:
    """Paths of copies in one direction, with their rates and their latencies beyond that of a copy within the GPU (0
    where that was not measured)."""
    for transfer, rate in rates.items():
        path = expected.path(transfer)
        if transfer.both or transfer.method not in OVER_LINKS or path.kind is PathKind.DIS:
            continue
        within = [rates.get(Transfer(end, end, CopyMethod.LOCAL)) for end in (transfer.source, transfer.target)]
        launch_s = max((local.latency_s for local in within if local is not None), default=inf)
        yield path, rate, max(rate.latency_s - launch_s, 0.0)


def _latencies(machine: Machine, over: list[tuple[Path, Rate, float]]) -> dict[int, float]:
    """Each link's share of the least latency over it, in proportion to the nominal latencies of the path's links."""
    found: dict[int, float] = {}
    for path, _, beyond_s in over:
        nominal_s = sum(latency_s(machine.links[n]) for n in path.links)
        for n in path.links if beyond_s and nominal_s else ():
            share_s = latency_s(machine.links[n]) * beyond_s / nominal_s
            found[n] = min(found.get(n, inf), share_s)
    return found


def _device(table: CopyTable, rates: Mapping[Transfer, Rate], device: Device) -> Device:
    """A GPU with the rate of its memory as measured, and without P2P over PCIe where the driver refuses it to all."""
    if device.kind is not DeviceKind.GPU:
        return device
    attributes = dict(device.attributes)
    if local := rates.get(Transfer(device.name, device.name, CopyMethod.LOCAL)):
        attributes["measured_memory_Bps"] = f"{COPIES_A_BYTE * local.bandwidth_Bps:.0f}"
    others = [d.name for d in table.machine.devices if d.kind is DeviceKind.GPU and d.name != device.name]
    if others and all((device.name, other) in table.refused for other in others):
        attributes["p2p"] = "0"
    return replace(device, attributes=MappingProxyType(attributes))


def _notes(table: CopyTable, links: int) -> Iterator[Note]:
    text = f"{links} of them as copies measured on {table.date} ran, `ringtree tune --device cuda`"
    yield Note(NoteKind.SOURCE, "links", text)
    for finding in findings(table):
        yield Note(NoteKind.TRAP, finding.about, finding.text)
