"""An entry of the catalogue, and the machine it describes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ringtree.machines import parts
from ringtree.machines.building import MachineBuilder
from ringtree.machines.machine import Device, DeviceKind, LinkKind, Machine, NoteKind


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry:
    """`numa`: the devices on each NUMA node's PCIe, as `[g0 g1 n0] [g2 g3 n1]`: g a GPU by local rank, n a NIC, s an
    NVMe, d a SATA disk, brackets a switch around the devices below it. `switch`: the switches' PCIe generation (0: the
    CPU's). `mesh`: links between GPUs, as `0-1x2 0-3`. `nvswitch`: the generation that joins all GPUs, `chips`: the
    number of its chips. `c2c`: GPUs hang off their CPU by it, not by PCIe. `copies`: the number of such nodes in the
    machine; their GPUs meet in their NVSwitch or, with `upper` links of each node to a second level of NVSwitches,
    there. `source`: the origin of the layout, `note`: a remark for the user."""

    name: str
    what: str
    source: str
    cpu: str
    numa: tuple[str, ...]
    sockets: int = 2
    gpu: str = ""
    nic: str = ""
    fabric: str = "infiniband"
    switch: int = 0
    mesh: str = ""
    nvswitch: int = 0
    chips: int = 0
    c2c: str = ""
    copies: int = 1
    upper: int = 0
    note: str = ""

    @property
    def gpus(self) -> int:
        """GPUs of all nodes."""
        return self.copies * len(re.findall(r"\bg\d", " ".join(self.numa)))


def build(entry: CatalogueEntry) -> Machine:
    """The machine of an entry. ValueError, which names the entry, where the entry is inconsistent."""
    _check(entry)
    b = MachineBuilder()
    b.note(NoteKind.SOURCE, entry.name, entry.source)
    if entry.note:
        b.note(NoteKind.SOURCE, entry.name, entry.note)
    for node in range(entry.copies):
        _Node(entry, b, node).build()
    if entry.nvswitch and not entry.upper:
        _switched(entry, b, range(entry.gpus), "nvswitch0", entry.chips)
    if entry.upper:
        _two_levels(entry, b)
    return b.machine(entry.name)


def _check(entry: CatalogueEntry) -> None:
    for what, name, table in (
        ("CPU", entry.cpu, parts.CPUS),
        ("GPU", entry.gpu, parts.GPUS),
        ("NIC", entry.nic, parts.NICS),
    ):
        if name not in table and (name or what == "CPU"):
            raise ValueError(f"{entry.name}: no {what} {name!r} in machines/parts: expected one of {', '.join(table)}")
    for tree in entry.numa:
        if (rest := re.sub(r"\b[gnsd]\d+\b|[\[\]\s]", "", tree)) or tree.count("[") != tree.count("]"):
            why = f"{rest!r} is none" if rest else "brackets do not match"
            raise ValueError(f"{entry.name}: numa {tree!r}: {why}; expected g0, n0, s0, d0 within [ and ]")
    words = " ".join(entry.numa)
    for sign in "gnsd":
        numbers = sorted(int(number) for number in re.findall(rf"\b{sign}(\d+)", words))
        if numbers != list(range(len(numbers))):
            raise ValueError(
                f"{entry.name}: numa has {sign}{numbers}; expected each of {sign}0 to {sign}{len(numbers) - 1} once"
            )
    for sign, what, name in (("g", "gpu", entry.gpu), ("n", "nic", entry.nic)):
        if re.search(rf"\b{sign}\d", words) and not name:
            raise ValueError(
                f"{entry.name}: numa has {sign}0, and {what} is empty; expected its name in machines/parts"
            )
    if entry.mesh and not parts.GPUS[entry.gpu].wires:
        raise ValueError(f"{entry.name}: mesh {entry.mesh!r}, and a {entry.gpu} has no links of its own")


def _switched(entry: CatalogueEntry, b: MachineBuilder, gpus: range, name: str, chips: int) -> None:
    b.nvswitch(name, entry.nvswitch, chips)
    part = parts.GPUS[entry.gpu]
    for g in gpus:
        b.nvlink(f"gpu{g}", name, int(part.wire), part.wires)


def _two_levels(entry: CatalogueEntry, b: MachineBuilder) -> None:
    each = entry.gpus // entry.copies
    for node in range(entry.copies):
        _switched(entry, b, range(node * each, node * each + each), f"nvswitch{node}", entry.chips)
    top = b.nvswitch("nvswitch-top", entry.nvswitch, entry.copies * entry.upper // parts.NVSWITCH[entry.nvswitch].ports)
    for node in range(entry.copies):
        b.nvlink(f"nvswitch{node}", top, parts.NVSWITCH[entry.nvswitch].nvlink, entry.upper)


class _Node:
    """One node's CPUs, PCIe and mesh; its devices are numbered after those of the nodes before."""

    def __init__(self, entry: CatalogueEntry, b: MachineBuilder, node: int) -> None:
        self.entry, self.b, self.node = entry, b, node
        self.each = {sign: len(re.findall(rf"\b{sign}\d", " ".join(entry.numa))) for sign in "gnsd"}
        self.cpu = parts.CPUS[entry.cpu]
        self.switch = entry.switch or self.cpu.pcie
        self.switches = node * " ".join(entry.numa).count("[")

    def build(self) -> None:
        cpus = [
            self.b.cpu(f"cpu{self.node * len(self.entry.numa) + k}", self.entry.cpu, numa=k)
            for k in range(len(self.entry.numa))
        ]
        self._cpu_links(cpus)
        # GPUs, then NICs, in the order of their numbers, wherever they hang.
        self._devices()
        for numa, tree in enumerate(self.entry.numa):
            self._hang(tree, cpus[numa])
        for a, c, count in mesh_links(self.entry.mesh):
            part = parts.GPUS[self.entry.gpu]
            wire = parts.NVLINK[part.wire] if isinstance(part.wire, int) else parts.XGMI[part.wire]
            self.b.wired(self._name("g", a), self._name("g", c), wire, count)

    def _name(self, sign: str, number: int) -> str:
        word = {"g": "gpu", "n": "nic", "s": "nvme", "d": "sata"}[sign]
        return f"{word}{self.node * self.each[sign] + number}"

    def _cpu_links(self, cpus: list[str]) -> None:
        """NUMA nodes of a socket are all joined; of two sockets, those at the same position."""
        per = len(cpus) // self.entry.sockets
        for k, a in enumerate(cpus):
            for m in range(k + 1, len(cpus)):
                if k // per == m // per:
                    bandwidth_Bps = self.cpu.to_numa_Bps
                elif k % per == m % per:
                    bandwidth_Bps = self.cpu.to_socket_Bps / per
                else:
                    continue
                self.b.link(a, cpus[m], LinkKind.CPU, bandwidth_Bps, latency_s=parts.CPU_LATENCY_S)

    def _devices(self) -> None:
        add: dict[str, Callable[[str, int], str]] = {
            "g": lambda name, numa: self.b.gpu(name, self.entry.gpu, numa=numa),
            "n": lambda name, numa: self.b.nic(name, self.entry.nic, numa=numa, fabric=self.entry.fabric),
            "s": lambda name, numa: self.b.add(Device(name, DeviceKind.STORAGE, model="NVMe", numa=numa)),
            "d": lambda name, numa: self.b.add(Device(name, DeviceKind.STORAGE, model="SATA", numa=numa)),
        }
        for sign, adds in add.items():
            found = (
                (int(m.group(1)), numa)
                for numa, tree in enumerate(self.entry.numa)
                for m in re.finditer(rf"\b{sign}(\d+)", tree)
            )
            for number, numa in sorted(found):
                adds(self._name(sign, number), numa)

    def _hang(self, tree: str, cpu: str) -> None:
        above = [cpu]
        for token in _tokens(tree):
            if token == "]":
                above.pop()
                continue
            top = len(above) == 1
            slot = self.cpu.pcie if top else self.switch
            if token == "[":
                name = self.b.add(Device(f"pci{self.switches}", DeviceKind.PCI))
                self.switches += 1
                self.b.pcie(above[-1], name, min(slot, self.switch))
                above.append(name)
                continue
            name = self._name(token[0], int(token[1:]))
            if token[0] == "d":
                self.b.wired(above[-1], name, parts.SATA, 1)
            elif token[0] == "s":
                self.b.pcie(above[-1], name, min(slot, 4), 4)
            elif token[0] == "g" and self.entry.c2c:
                self.b.wired(above[-1], name, parts.C2C[self.entry.c2c], 1)
            else:
                part = parts.GPUS[self.entry.gpu] if token[0] == "g" else parts.NICS[self.entry.nic]
                self.b.pcie(above[-1], name, min(slot, part.pcie))


def _tokens(tree: str) -> Iterator[str]:
    return (m.group() for m in re.finditer(r"\[|\]|[gnsd]\d+", tree))


def mesh_links(text: str) -> Iterator[tuple[int, int, int]]:
    """(GPU, GPU, number of links) of each pair, from an entry's `mesh`."""
    for pair in text.split():
        ends, _, count = pair.partition("x")
        a, b = ends.split("-")
        yield int(a), int(b), int(count or 1)
