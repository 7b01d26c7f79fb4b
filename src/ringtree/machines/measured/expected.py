"""The rate that a machine's nominal figures promise a copy: its narrowest link's, without the protocol's headers."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from ringtree.machines import parts
from ringtree.machines.link_figures import data_Bps
from ringtree.machines.machine import DeviceKind, Link, LinkKind, Machine, PathKind
from ringtree.machines.measured.copies_table import CopyMethod, CopyTable, Transfer
from ringtree.machines.paths import Path, Paths

COPIES_A_BYTE = 2
"""A copy within a memory reads each byte and writes it."""
SAME = 1.02
"""Links that differ by less are equally narrow."""


class Expected:
    """Expectations of a table's transfers. PCIe links of GPUs count as NVML reports them at their most: one that runs
    below that is a finding, not an expectation."""

    def __init__(self, table: CopyTable) -> None:
        self.table = table

    @cached_property
    def machine(self) -> Machine:
        """The machine with its GPUs' PCIe links at their most."""
        machine = self.table.machine
        return replace(machine, links=tuple(self._at_most(link) for link in machine.links))

    @cached_property
    def _paths(self) -> Paths:
        return Paths(self.machine)

    def path(self, transfer: Transfer) -> Path:
        """The path of a transfer between two memories."""
        return self._paths.between(self.machine.device(transfer.source), self.machine.device(transfer.target))

    def bandwidth_Bps(self, transfer: Transfer) -> float | None:
        """One direction's bandwidth; None where nominal figures promise nothing: over pageable memory and staged copies
        a processor copies, and both directions at once share what no table has."""
        if transfer.both or transfer.method in (CopyMethod.PAGEABLE, CopyMethod.STAGED):
            return None
        if transfer.method is CopyMethod.LOCAL:
            device = self.machine.devices[self.machine.device(transfer.source)]
            memory_Bps = device.attributes.get("memory_Bps", "")
            return float(memory_Bps) / COPIES_A_BYTE if memory_Bps.replace(".", "", 1).isdecimal() else None
        path = self.path(transfer)
        if path.kind is PathKind.DIS:
            return None
        return min((data_Bps(self.machine.links[n]) for n in path.links), default=None)

    def narrowest(self, path: Path) -> tuple[int, ...]:
        """The links of a path that limit it, by number."""
        least = min((data_Bps(self.machine.links[n]) for n in path.links), default=0.0)
        return tuple(n for n in path.links if data_Bps(self.machine.links[n]) <= SAME * least)

    def _at_most(self, link: Link) -> Link:
        ends = [self.table.machine.devices[n] for n in (link.source, link.target)]
        gpu = next((d for d in ends if d.kind is DeviceKind.GPU), None)
        state = self.table.states.get(gpu.name) if gpu is not None else None
        if link.kind is not LinkKind.PCIE or state is None or state.most_generation not in parts.PCIE:
            return link
        width = state.most_width or link.width
        bandwidth_Bps = width * parts.PCIE[state.most_generation].bandwidth_Bps
        return replace(link, bandwidth_Bps=bandwidth_Bps, generation=state.most_generation, width=width)
