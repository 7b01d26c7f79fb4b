"""A machine from the output of `nvidia-smi topo -m`: a tree of CPUs and PCIe switches in which every two devices meet
at the level in the matrix, and its NVLinks. The file does not name the parts: notes list the assumptions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from ringtree.files.file_bytes import file_bytes
from ringtree.machines import parts
from ringtree.machines.files.distance_matrix import NEAR, DistanceMatrix, distance_matrix, looks_like
from ringtree.machines.files.draft import Draft
from ringtree.machines.files.link_counts import note_too_many
from ringtree.machines.files.nccl_xml.assumed import Assumed, note_unused
from ringtree.machines.files.nccl_xml.cpus import likely
from ringtree.machines.files.nccl_xml.deriving import fastest, of_rate
from ringtree.machines.files.nccl_xml.gpus import of_another_maker
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, Machine, NoteKind

MOST_BYTES = 2**20
_WIDTH = 16
_PCIE = 4
_SWITCHED = {18: "H100 SXM5", 12: "A100 SXM4 40GB", 8: "A800 SXM4 80GB", 6: "V100 SXM3"}
_DIRECT = {18: "H100 SXM5", 12: "A100 SXM4 40GB", 6: "V100 SXM2", 4: "P100 SXM2"}
_BRIDGED = {18: "H200 NVL", 12: "A100 PCIe 80GB", 4: "RTX A6000"}
"""The likeliest GPUs by number of NVLinks: to all through switches, to some, to one other."""

__all__ = ["looks_like", "parse", "read"]


def read(path: str | Path, assume: Mapping[str, str] | None = None) -> Machine:
    """The machine of a file. ValueError, in one line: if it is none. `assume` gives facts that the text lacks, as for
    `nccl_xml.read`: {"gpu": "h100-sxm", "nic": "400Gb/s"}."""
    return parse(file_bytes(path, "the output of nvidia-smi topo -m", MOST_BYTES), str(path), assume)


def parse(data: bytes, file: str, assume: Mapping[str, str] | None = None) -> Machine:
    """The machine of the text itself; otherwise as `read`."""
    if len(data) > MOST_BYTES:
        raise ValueError(f"{file}: {len(data):,} bytes; expected a matrix of at most {MOST_BYTES:,}")
    given = Assumed.of(assume or {})
    matrix = distance_matrix(data, file)
    try:
        return _Tree(matrix, given).machine()
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(file) else f"{file}: {text}") from None


class _Tree:
    """Devices by their position in the matrix; groups of devices that meet below a level, the nearest level first."""

    def __init__(self, matrix: DistanceMatrix, given: Assumed) -> None:
        self.matrix, self.given = matrix, given
        self.draft = Draft(Path(matrix.file).stem)
        self.number: dict[int, int] = {}
        self.positions = range(len(matrix.names))
        self.gpus = [p for p in self.positions if matrix.is_gpu(p)]
        self.switched = self._all_to_all()
        self.part = self._model()
        self.generation = self.part.pcie if self.part else _PCIE

    def machine(self) -> Machine:
        self._devices()
        inner, outer = self._groups("PIX"), self._groups("PXB")
        nodes = self._nodes()
        self._note_contradictions(nodes)
        cpus = [self._node(members, inner, outer) for members in nodes]
        part = likely(self.generation)
        for k, a in enumerate(cpus):
            for b in cpus[k + 1 :]:
                self.draft.join(Link(a, b, LinkKind.CPU, part.to_socket_Bps, parts.CPU_LATENCY_S))
        if len(cpus) > 1:
            text = f"joined as {part.model} are, for want of a report: {part.to_socket_Bps / 1e9:g} GB/s each way"
            self.draft.note(NoteKind.ASSUMED, f"{len(cpus)} NUMA nodes", text)
        self._nvlinks()
        note_too_many(self.draft, "taken as written")
        if self.given.nvlink is not None:
            note_unused(self.draft, "nvlink", "the matrix has them, which takes precedence")
        nics = len(self.gpus) < len(self.positions)
        for key, value in (("nic", self.given.nic_Bps), ("gdr", self.given.gdr)):
            if value is not None and not nics:
                note_unused(self.draft, key, "the file has none")
        return self.draft.machine()

    def _groups(self, level: str) -> list[int]:
        """The first of the devices that meet at that level or nearer, by position. ValueError: if the matrix is no
        tree's."""
        first = list(self.positions)
        for a in self.positions:
            for b in range(a):
                if NEAR.get(self.matrix.cells[a][b], 9) <= NEAR[level] and first[a] != first[b]:
                    old, new = max(first[a], first[b]), min(first[a], first[b])
                    first = [new if f == old else f for f in first]
        for a in self.positions:
            for b in range(a):
                cell = self.matrix.cells[a][b]
                if first[a] == first[b] and cell in NEAR and NEAR[cell] > NEAR[level]:
                    raise self.matrix.refuse(a, b, f"{cell}, but both are nearer to others between; expected a tree")
        return first

    def _nodes(self) -> list[list[int]]:
        """Positions by NUMA node: by distance, and where NVLinks hide it by the printed NUMA node, else all of one."""
        near = self._groups("NODE")
        nodes: list[list[int]] = []
        for group in dict.fromkeys(near):
            own = [p for p in self.positions if near[p] == group]
            fits = [node for node in nodes if self._may_be_one(own, node)]
            alike = [node for node in fits if self._printed_numa(own) & self._printed_numa(node)]
            if fits and not alike:
                text = "NVLinks hide how far some GPUs are over PCIe: taken as of one NUMA node"
                self.draft.note(NoteKind.ASSUMED, "NUMA nodes", text)
            if fits:
                (alike or fits)[0].extend(own)
            else:
                nodes.append(own)
        return [sorted(node) for node in nodes]

    def _note_contradictions(self, nodes: list[list[int]]) -> None:
        """Notes printed NUMA nodes that the cells spread over several, and several that they join."""
        printed = [{numa for numa in self._printed_numa(node) if numa.isdecimal()} for node in nodes]
        for numa in sorted(set().union(*printed), key=int):
            over = [node for node, there in zip(nodes, printed, strict=True) if numa in there]
            if len(over) > 1:
                names = ", ".join(self.matrix.names[p] for node in over for p in node if self.matrix.numa[p] == numa)
                text = (
                    f"{names} by their NUMA affinity, SYS apart by the cells: taken as {len(over)} nodes, by the cells"
                )
                self.draft.note(NoteKind.TRAP, f"NUMA node {numa}", text)
        for there in printed:
            if len(there) > 1:
                text = "apart by NUMA affinity, nearer than SYS by the cells: taken as one node, by the cells"
                self.draft.note(NoteKind.TRAP, f"NUMA nodes {', '.join(sorted(there, key=int))}", text)

    def _printed_numa(self, positions: list[int]) -> set[str]:
        return {self.matrix.numa[p] for p in positions if self.matrix.numa[p]}

    def _may_be_one(self, own: list[int], node: list[int]) -> bool:
        mine, other = self._printed_numa(own), self._printed_numa(node)
        return not (mine and other and mine != other) and not any(
            self.matrix.cells[p][q] == "SYS" for p in own for q in node
        )

    def _node(self, members: list[int], inner: list[int], outer: list[int]) -> int:
        """A CPU and the devices below it: a switch for those that are PIX, another above several such that are PXB."""
        numa_text = next((self.matrix.numa[p] for p in members if self.matrix.numa[p].isdecimal()), "")
        known = {d.numa for d in self.draft.devices if d.kind is DeviceKind.CPU}
        numa = (
            int(numa_text)
            if numa_text and int(numa_text) not in known
            else next(n for n in range(10_000) if n not in known)
        )
        cpu = self.draft.add(Device(f"cpu{numa}", DeviceKind.CPU, numa=numa), (numa,))
        for group in dict.fromkeys(outer[p] for p in members):
            below = [p for p in members if outer[p] == group]
            switches = list(dict.fromkeys(inner[p] for p in below))
            top = self._switch(cpu, numa) if len(switches) > 1 else cpu
            for switch in switches:
                devices = [p for p in below if inner[p] == switch]
                above = self._switch(top, numa) if len(devices) > 1 or len(switches) > 1 else top
                for position in devices:
                    self.draft.change(self.number[position], numa=numa)
                    self._pcie(self.number[position], above)
        return cpu

    def _switch(self, above: int, numa: int) -> int:
        count = sum(d.kind is DeviceKind.PCI for d in self.draft.devices)
        number = self.draft.add(Device(f"pci{count}", DeviceKind.PCI, numa=numa), (count,))
        self._pcie(number, above)
        return number

    def _pcie(self, a: int, b: int) -> None:
        wire = parts.PCIE[self.generation]
        self.draft.join(Link(a, b, LinkKind.PCIE, _WIDTH * wire.bandwidth_Bps, wire.latency_s, wire.generation, _WIDTH))

    def _devices(self) -> None:
        slot_Bps = _WIDTH * parts.PCIE[self.generation].bandwidth_Bps
        rate = self.given.nic_Bps or fastest(slot_Bps)
        for position in self.positions:
            name = self.matrix.names[position]
            if self.matrix.is_gpu(position):
                kept = MappingProxyType(self.part.attributes if self.part else {})
                model, sm = (self.part.model, self.part.sm) if self.part else ("", 0)
                gdr = self.part.gdr if self.part else True
                device = Device(name.lower(), DeviceKind.GPU, "nvidia", model, sm=sm, gdr=gdr, attributes=kept)
                self.number[position] = self.draft.add(device, (int(name[3:]),))
            else:
                called = self.matrix.called.get(name, name)
                gdr = self.given.gdr is not False
                maker = "mellanox" if called.startswith("mlx") else ""
                device = Device(called, DeviceKind.NIC, maker, gdr=gdr, rate_Bps=rate)
                self.number[position] = self.draft.add(device, (position,))
                why = (
                    "as it was given"
                    if self.given.nic_Bps
                    else "the fastest that its slot carries; if not: assume nic=RATE"
                )
                self.draft.note(NoteKind.ASSUMED, self.number[position], of_rate(rate, why, gdr))
        numbers = [int(self.matrix.names[p][3:]) for p in self.gpus]
        if sorted(numbers) != list(range(len(numbers))):
            named = [f"{local} is GPU{n}" for local, n in enumerate(sorted(numbers)) if local != n]
            text = f"by local rank here, without the gaps of the file, also in --gpus: {', '.join(named)}"
            self.draft.note(NoteKind.ASSUMED, "numbers of GPUs", text)
        why = "as it was given" if self.given.gpu else f"by their NVLinks{self._alike()}; if not: assume gpu=MODEL"
        about = f"taken as {self.part.model}, {why}" if self.part else "their model is not reported: assume gpu=MODEL"
        self.draft.note(NoteKind.ASSUMED, "GPUs", about)
        text = f"generation and width are not reported: all taken as PCIe {self.generation} x{_WIDTH}"
        self.draft.note(NoteKind.ASSUMED, "PCIe", text)

    def _most_links(self) -> int:
        """The number of a GPU's NVLinks: with switches that of a cell, else the sum of its row."""
        rows = [[self.matrix.nvlinks(a, b) for b in self.gpus] for a in self.gpus]
        return max((max(row) if self.switched else sum(row) for row in rows), default=0)

    def _all_to_all(self) -> bool:
        """Whether the NVLinks must go through a switch: all pairs have them, more than a GPU has."""
        pairs = [self.matrix.nvlinks(a, b) for a in self.gpus for b in self.gpus if a != b]
        most = max((p.wires for p in parts.GPUS.values() if p.vendor == "nvidia"), default=0)
        return bool(pairs) and all(pairs) and max(pairs) * (len(self.gpus) - 1) > most

    def _model(self) -> parts.GpuPart | None:
        if self.given.gpu is not None:
            if self.given.gpu.vendor != "nvidia":
                raise ValueError(of_another_maker(self.given.gpu, "nvidia"))
            return self.given.gpu
        neighbours = max((sum(self.matrix.nvlinks(a, b) > 0 for b in self.gpus) for a in self.gpus), default=0)
        likely = _SWITCHED if self.switched else _BRIDGED if neighbours == 1 else _DIRECT
        model = likely.get(self._most_links())
        return parts.GPUS[model] if model else None

    def _alike(self) -> str:
        """The other models of as many NVLinks, in words."""
        wires = self.part.wires if self.part else 0
        others = [p.model for p in parts.GPUS.values() if p.vendor == "nvidia" and p.wires == wires and p != self.part]
        return f", of which {', '.join(others)} have as many" if others else ""

    def _nvlinks(self) -> None:
        wire = self.part.wire if self.part else 3
        if not isinstance(wire, int) or wire not in parts.NVLINK:
            wire = 3
        kind = parts.NVLINK[wire]
        pairs = [(a, b) for k, a in enumerate(self.gpus) for b in self.gpus[k + 1 :] if self.matrix.nvlinks(a, b)]
        if not pairs:
            return
        how = "directly"
        if self.switched:
            how = "through NVSwitches: a GPU has too few for all others"
            chip = next((s for s in parts.NVSWITCH.values() if s.nvlink == wire), None)
            known = {"generation": str(chip.generation), "sharp": str(int(chip.sharp))} if chip else {}
            attributes = MappingProxyType(known)
            switch = self.draft.add(Device("nvswitch0", DeviceKind.NVSWITCH, "nvidia", attributes=attributes))
            ends = [(self.number[g], switch, max(self.matrix.nvlinks(g, o) for o in self.gpus)) for g in self.gpus]
        else:
            ends = [(self.number[a], self.number[b], self.matrix.nvlinks(a, b)) for a, b in pairs]
        for a, b, count in ends:
            self.draft.join(Link(a, b, kind.kind, count * kind.bandwidth_Bps, kind.latency_s, kind.generation, count))
        text = f"taken as of generation {wire}, {kind.bandwidth_Bps / 1e9:g} GB/s each way and link, and as going {how}"
        self.draft.note(NoteKind.ASSUMED, "NVLinks", text)
