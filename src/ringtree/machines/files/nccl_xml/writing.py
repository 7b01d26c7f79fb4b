"""A machine as a topology file that NCCL (RCCL, where its GPUs are AMD's) takes, and that reads back as the same graph.

NCCL's own parser (NVIDIA/nccl, src/graph/xml.cc) wants no <?xml …?> before it, one blank between attributes, at most 16
of them and values of at most 254 characters, and skips elements and attributes that it does not know.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

from ringtree.files.replacing import replacing
from ringtree.machines import parts, pci
from ringtree.machines.files.nccl_xml.gpus import vendor_id
from ringtree.machines.files.nccl_xml.nics import MBPS
from ringtree.machines.files.nccl_xml.reading import machine_of
from ringtree.machines.files.nccl_xml.tree import PciTree, tree
from ringtree.machines.files.xml_elements import elements
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, Machine
from ringtree.machines.nics import fabric_by_maker

_LONGEST = 254
_GCN = {"MI50": "906", "MI100": "908", "MI250": "910", "MI300": "gfx942", "MI350": "gfx950"}
_WIDTHS = (1, 2, 4, 8, 16, 32)
Attributes = dict[str, str | int | None]
Ends = tuple[str, str, LinkKind]
Figures = dict[Ends, list[tuple[float, float, int, int]]]
"""Links' bandwidth in B/s, latency in seconds, generation and width, by ends and kind."""


def write(machine: Machine, path: str | Path) -> None:
    """Writes the machine to a file. ValueError, before anything is written: if this format cannot express the
    machine."""
    data = text(machine).encode()
    with replacing(Path(path)) as file:
        file.write(data)


def text(machine: Machine) -> str:
    """The file's text. Facts that the format has no element for (links between CPUs other than a reader assumes,
    switches by name) follow in elements of ours."""
    writer = _Writer(machine)
    base = "\n".join([*writer.head(), *writer.cpus(), "</system>", ""])
    written = _links(machine_of(elements(base.encode(), "the written file")))
    further = writer.further(written)
    return "\n".join([*writer.head(), *writer.cpus(), *further, "</system>", ""])


def _links(machine: Machine) -> Figures:
    """Parallel links of one generation are one."""
    merged: dict[tuple[str, str, LinkKind, int], tuple[float, float, int, int]] = {}
    for k in machine.links:
        key = (machine.devices[k.source].name, machine.devices[k.target].name, k.kind, k.generation)
        bandwidth, _, _, width = merged.get(key, (0.0, 0.0, 0, 0))
        merged[key] = (bandwidth + k.bandwidth_Bps, k.latency_s, k.generation, width + k.width)
    out: Figures = {}
    for key, figures in merged.items():
        out.setdefault(key[:3], []).append(figures)
    return {key: sorted(figures) for key, figures in out.items()}


class _Writer:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.tree: PciTree = tree(machine)
        self.amd = any(machine.devices[g].vendor == "amd" for g in machine.gpus)
        self.switches = machine.of_kind(DeviceKind.NVSWITCH)
        self.rank = {device: rank for rank, device in enumerate(machine.gpus)}
        self.position = {device: position for position, device in enumerate(machine.nics)}

    def head(self) -> list[str]:
        """<system>, and the switches, which links refer to."""
        lines = [_element("system", {"version": 2 if self.amd else 1, "name": self.machine.name}, False)]
        for n in (*self.switches, *self.machine.of_kind(DeviceKind.SWITCH)):
            d = self.machine.devices[n]
            fields: Attributes = {"name": d.name, "kind": d.kind.value, "busid": self.tree.busid.get(n)}
            fields |= {"vendor": d.vendor, "model": d.model, "numa": None if d.numa == -1 else d.numa}
            fields |= {key: value for key, value in d.attributes.items() if key not in fields}
            lines.append("  " + _element("device", fields))
        return lines

    def cpus(self) -> list[str]:
        """Each <cpu> with all devices below it."""
        lines = []
        several = len(set(self.tree.host.values())) > 1
        taken = set[tuple[int, int]]()
        for n in self.machine.of_kind(DeviceKind.CPU):
            d = self.machine.devices[n]
            numa = d.numa
            while (self.tree.host[n], numa) in taken or numa < -1:
                numa += 1
            taken.add((self.tree.host[n], numa))
            attributes = d.attributes
            fields: Attributes = {
                "numaid": numa,
                "affinity": attributes.get("affinity"),
                "arch": attributes.get("arch", "x86_64"),
            }
            fields |= {
                "vendor": d.vendor,
                "familyid": attributes.get("familyid", 0),
                "modelid": attributes.get("modelid", 0),
            }
            fields |= {"host_hash": f"{self.tree.host[n] + 1:#x}" if several else attributes.get("host_hash")}
            fields |= {"name": d.name, "model": d.model, "numa": None if numa == d.numa else d.numa}
            lines.append("  " + _element("cpu", fields, False, keep=("vendor",)))
            lines += self._below(n, "    ")
            lines.append("  </cpu>")
        return lines

    def _below(self, at: int, indent: str) -> list[str]:
        lines = []
        for n in self.tree.below.get(at, []):
            d = self.machine.devices[n]
            if d.kind is DeviceKind.NIC and d.attributes.get("unplaced"):
                lines += self._nic(n, d, indent, {"name": d.name, "maker": d.vendor, "model": d.model})
                continue
            inside = self._below(n, indent + "  ")
            if d.kind is DeviceKind.GPU:
                inside = self._gpu(n, d, indent + "  ") + inside
            elif d.kind is DeviceKind.NIC:
                inside = self._nic(n, d, indent + "  ", {}) + inside
            lines.append(indent + _element("pci", self._slot(n, d), not inside))
            if inside:
                lines += [*inside, f"{indent}</pci>"]
        return lines

    def _slot(self, n: int, d: Device) -> Attributes:
        attributes = d.attributes
        fields: Attributes = {"busid": self.tree.busid[n], "class": attributes.get("class") or _class(d)}
        ids: Attributes = {
            key: attributes.get(key) for key in ("vendor", "device", "subsystem_vendor", "subsystem_device")
        }
        if not attributes.get("device"):
            ids |= _ids(d)
        speed, width = _nearest(self.tree.uplink.get(n))
        numa = None if d.numa == self.machine.devices[self.tree.cpu[n]].numa else d.numa
        return {
            **fields, **ids, "link_speed": speed, "link_width": width,
            "name": d.name, "maker": d.vendor, "model": d.model, "numa": numa,
        }  # fmt: skip

    def _gpu(self, n: int, d: Device, indent: str) -> list[str]:
        attributes = d.attributes
        part = parts.GPUS.get(d.model)
        gcn = _GCN.get(part.wire) if part and isinstance(part.wire, str) else None
        fields: Attributes = {
            "dev": self.rank[n],
            "sm": attributes.get("sm", d.sm),
            "gcn": attributes.get("gcn") or gcn,
            "arch": attributes.get("arch"),
        }
        fields |= {"rank": self.rank[n], "gdr": int(d.gdr), "mlopart": attributes.get("mlopart")}
        fields |= {"memory_Bps": attributes.get("memory_Bps"), "p2p": attributes.get("p2p")}
        links = [f"{indent}  {line}" for m in self.machine.leaving(n) if (line := self._link(self.machine.links[m]))]
        return [indent + _element("gpu", fields, not links), *links, *([f"{indent}</gpu>"] if links else [])]

    def _link(self, link: Link) -> str:
        """A GPU's link as the format's own element; empty where the format has none."""
        kind = self.machine.devices[link.target].kind
        own, other = self.tree.cpu[link.source], self.tree.cpu.get(link.target)
        lane_MBps = round(link.bandwidth_Bps / link.width / 1e6)
        if link.kind is LinkKind.C2C and link.target == own and lane_MBps:
            return _element("c2c", {"bw": lane_MBps, "count": link.width})
        if kind is DeviceKind.GPU and other is not None and self.tree.host[own] == self.tree.host[other]:
            busid, code = self.tree.busid[link.target], _class(self.machine.devices[link.target])
        elif kind is DeviceKind.NVSWITCH:
            busid, code = self.tree.busid[link.target], "0x068000"
        elif link.kind is LinkKind.NVLINK and link.target == own:
            busid, code = "ffff:ff:ff.0", "0x068001"
        else:
            return ""
        tag = {LinkKind.NVLINK: "nvlink", LinkKind.XGMI: "xgmi"}.get(link.kind, "")
        return _element(tag, {"target": busid, "count": link.width, "tclass": code}) if tag else ""

    def _nic(self, n: int, d: Device, indent: str, fields: Attributes) -> list[str]:
        """A NIC: its ports share the rate as in the file that was read, else evenly; each port is a dev."""
        per_port = {key: value.split(",") for key, value in d.attributes.items()}
        names = [name for name in per_port.get("net", []) if name] or [d.name]
        count = len(per_port.get("speed", names))
        lines = []
        for k in range(count):
            net: Attributes = {"name": names[k] if k < len(names) else f"{d.name}.{k}"}
            net |= {key: of[k] or None for key in ("port", "guid", "maxconn", "coll", "rail", "plane", "fabric")
                    if k < len(of := per_port.get(key, []))}  # fmt: skip
            even = str(round(d.rate_Bps / MBPS / count))
            speed = per_port["speed"][k] if d.attributes.get("speed") and not self._other_rate(d) else even
            net |= {"dev": self._dev(n, k), "speed": speed, "latency": f"{d.latency_s * 1e6:.6f}", "gdr": int(d.gdr)}
            lines.append(f"{indent}  {_element('net', net)}")
        return [indent + _element("nic", fields, False), *lines, f"{indent}</nic>"]

    def _other_rate(self, d: Device) -> bool:
        """Whether the ports' speeds in the file no longer add up to the NIC's rate."""
        speeds = d.attributes["speed"].split(",")
        guids, ports = (d.attributes.get(key, "").split(",") for key in ("guid", "port"))
        if not all(t.strip().isdecimal() for t in speeds):
            return True
        each = {
            (guids[k] if k < len(guids) else k, ports[k] if k < len(ports) else 0): int(t) for k, t in enumerate(speeds)
        }
        return abs(sum(each.values()) * MBPS - d.rate_Bps) > 1e-9 * d.rate_Bps

    def _dev(self, n: int, port: int) -> int:
        """A port's dev: the number of ports before it, over all NICs."""
        before = [len(self.machine.devices[m].attributes.get("speed", "").split(",")) for m in self.machine.nics]
        return sum(before[: self.position[n]]) + port

    def further(self, written: Figures) -> list[str]:
        """A <link> for each link that the elements so far, read back as `written`, express wrongly."""
        meant = _links(self.machine)
        every = {**meant, **written}
        other = {key for key in every if meant.get(key) != written.get(key)}
        if any(kind is LinkKind.CPU for _, _, kind in other):  # with one given, none is assumed
            other |= {key for key in every if key[2] is LinkKind.CPU}
        return [_link_line(key, of) for key in every if key in other for of in meant.get(key, [_NONE])]


_NONE = (0.0, 0.0, 0, 1)


def _link_line(key: Ends, figures: tuple[float, float, int, int]) -> str:
    bandwidth, latency, generation, width = figures
    fields: Attributes = {"source": key[0], "target": key[1], "kind": key[2].value, "bandwidth_Bps": f"{bandwidth!r}"}
    fields |= {"latency_s": f"{latency!r}", "generation": generation, "width": width}
    return "  " + _element("link", fields)


def _element(tag: str, attributes: Attributes, closed: bool = True, keep: tuple[str, ...] = ()) -> str:
    """One blank between attributes; None is left out, and so is an empty text that need not be there."""
    texts = []
    for key, value in attributes.items():
        if value is None or (value == "" and key not in keep):
            continue
        shown = escape(str(value), {'"': "&quot;"})
        if len(shown) > _LONGEST or not shown.isprintable():
            raise ValueError(f'<{tag}> {key}="{shown[:40]!s}…": expected at most {_LONGEST} printable characters')
        texts.append(f' {key}="{shown}"')
    return f"<{tag}{''.join(texts)}{'/' if closed else ''}>"


def _class(d: Device) -> str:
    if d.attributes.get("class"):
        return d.attributes["class"]
    if d.kind is DeviceKind.GPU:
        return "0x030200" if d.vendor in ("nvidia", "") else "0x120000"
    if d.kind is DeviceKind.NIC:
        fabric = d.attributes.get("fabric") or fabric_by_maker(d)  # a reader takes Ethernet's class for RoCE
        return "0x020700" if fabric == "infiniband" else "0x020000"
    return {DeviceKind.STORAGE: "0x010601" if d.model == "SATA" else "0x010802"}.get(d.kind, "0x060400")


def _ids(d: Device) -> Attributes:
    """PCI ids of a model that is known."""
    gpu, nic = parts.GPUS.get(d.model), parts.NICS.get(d.model)
    if d.kind is DeviceKind.GPU and gpu is not None and gpu.ids:
        return {"vendor": f"{vendor_id(gpu.vendor):#06x}", "device": f"{gpu.ids[0]:#06x}"}
    if d.kind is DeviceKind.NIC and nic is not None and nic.ids:
        return {"vendor": f"{nic.ids[0][0]:#06x}", "device": f"{nic.ids[0][1]:#06x}"}
    return {}


def _nearest(link: Link | None) -> tuple[str, int]:
    """Speed and width that NCCL reads right, of a link that may be no PCIe link of a known generation."""
    if link is None:
        return pci.speed_for_nccl(pci.NCCL_DEFAULT_GENERATION), pci.NCCL_DEFAULT_WIDTH
    if link.generation in parts.PCIE and 1 <= link.width <= pci.WIDEST:
        return pci.speed_for_nccl(link.generation), link.width
    near = min(
        ((g, w) for g in parts.PCIE for w in _WIDTHS),
        key=lambda gw: abs(parts.PCIE[gw[0]].bandwidth_Bps * gw[1] - link.bandwidth_Bps),
    )
    return pci.speed_for_nccl(near[0]), near[1]
