"""Faults of a cluster, each as a changed Cluster, whose predicted times are those expected with the fault."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import Device, DeviceKind, LinkKind, Machine, both_ways
from ringtree.nccl.files.debug_log import Debug
from ringtree.topology.fabrics import FABRICS

DIRECT = frozenset({LinkKind.NVLINK, LinkKind.XGMI})
HARDWARE, SOFTWARE = 1.35, 2.5
"""The factor between a measurement and a prediction that still fits: for links, and for copies by a kernel or a CPU,
which differ more between hosts."""
KERNEL = 16.0
"""The factor for the kernel's TCP: its prediction is an upper bound, with a core for each connection."""


@dataclass(frozen=True)
class Fault:
    """`cluster`: as it would be with the fault. A measurement fits its prediction by a factor of `within`, or of
    `slower` where the measurement is slower. Faults of one `key` are variants. `signs`: lines that NCCL prints with the
    fault (debug_log); `unless`: lines that it prints without it; `settings`: variables that cause it. `check`: a
    command that confirms it; `remedy`: its repair."""

    key: str
    what: str
    cluster: Cluster
    within: float
    check: str
    remedy: str
    slower: float = 0.0
    signs: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def evidence_for(self, debug: Debug) -> tuple[str, ...]:
        """The log's evidence for the fault, one text each."""
        out = [
            f"{name}={debug.environment[name]} was set"
            for name, values in self.settings.items()
            if debug.environment.get(name, "").lower() in values
        ]
        if not any(debug.times(sign) for sign in self.unless):
            out += [_quoted(debug, sign) for sign in self.signs if debug.times(sign)]
        if self._counts_nics and len(debug.hcas) == self._nics:
            out.append(f"NCCL uses {', '.join(debug.hcas)} and no other port")
        return tuple(out)

    def evidence_against(self, debug: Debug) -> tuple[str, ...]:
        """The log's evidence against the fault, one text each; empty where there is evidence for it."""
        if self.evidence_for(debug):
            return ()
        out = [_quoted(debug, sign) for sign in self.unless if debug.times(sign)]
        if self._counts_nics and len(debug.hcas) > self._nics:
            out.append(f"NCCL uses {len(debug.hcas)} ports: {', '.join(debug.hcas)}")
        return tuple(out)

    @property
    def _counts_nics(self) -> bool:
        return self.key == "rails"

    @property
    def _nics(self) -> int:
        return len(self.cluster.machine.nics)


def _quoted(debug: Debug, sign: str) -> str:
    seen = debug.signs[sign]
    return (
        f"line {seen.line}, the first of {seen.times} alike: {seen.text}"
        if seen.times > 1
        else f"line {seen.line}: {seen.text}"
    )


@lru_cache(maxsize=16)
def faults(cluster: Cluster) -> tuple[Fault, ...]:
    """The faults that the cluster can have; cached, so that their channels are searched once."""
    kinds = (_sockets, _gdr_off, _few_nics, _cpu_link, _p2p_off, _nvlink_unused, _pcie_half)
    return tuple(fault for of in kinds for fault in of(cluster))


def _p2p_off(cluster: Cluster) -> Iterator[Fault]:
    machine = cluster.machine
    if len(machine.gpus) > 1 and any(machine.devices[g].attributes.get("p2p") != "0" for g in machine.gpus):
        yield Fault(
            "p2p_off",
            "P2P is off: GPUs of a node reach one another through the host's memory and, between sockets, over the "
            "CPU link",
            replace(cluster, machine=_changed(_without_direct(machine), DeviceKind.GPU, _no_p2p)),
            SOFTWARE,
            "NCCL_DEBUG=INFO prints `via SHM` where it is off, `via P2P` where it is on; `nvidia-smi topo -p2p r`",
            "unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL; switch off ACS and the IOMMU's translation",
            signs=("shm", "p2p_disabled"),
            unless=("p2p",),
            settings={"NCCL_P2P_DISABLE": ("1",), "NCCL_P2P_LEVEL": ("loc", "0")},
        )


def _nvlink_unused(cluster: Cluster) -> Iterator[Fault]:
    machine = cluster.machine
    if any(k.kind in DIRECT for k in machine.links):
        yield Fault(
            "nvlink_unused",
            "the links between GPUs (NVLink, xGMI) are not used: traffic goes over PCIe and, between sockets, over the "
            "CPU link",
            replace(cluster, machine=_without_direct(machine)),
            SOFTWARE,
            "`nvidia-smi topo -m` shows NV# between all GPUs and `nvidia-smi nvlink --status` has no link down; "
            "NCCL_DEBUG_SUBSYS=GRAPH prints the links that NCCL found",
            "reset GPUs whose links are down, start Fabric Manager where there are NVSwitches, give a container or VM "
            "all the GPUs that are linked",
        )


def _gdr_off(cluster: Cluster) -> Iterator[Fault]:
    machine = cluster.machine
    able = any(machine.devices[n].gdr for n in machine.nics) and any(machine.devices[g].gdr for g in machine.gpus)
    if cluster.nodes > 1 and cluster.fabric and cluster.fabric.gdr and able:
        yield Fault(
            "gdr_off",
            "GPUDirect RDMA is off: data to other nodes is copied through the host's memory",
            replace(cluster, machine=_changed(machine, DeviceKind.NIC, _no_gdr)),
            HARDWARE,
            "NCCL_DEBUG=INFO prints `via NET/…/GDRDMA` where it is on; `lsmod | grep nvidia_peermem`",
            "load nvidia-peermem or use DMA-BUF, unset NCCL_NET_GDR_LEVEL, switch off ACS",
            signs=("staged", "gdr_disabled"),
            unless=("gdrdma", "socket", "using_socket"),
            settings={"NCCL_NET_GDR_LEVEL": ("loc", "0"), "NCCL_NET_GDR_DISABLE": ("1",)},
        )


def _few_nics(cluster: Cluster) -> Iterator[Fault]:
    there = len(cluster.machine.nics)
    if cluster.nodes > 1:
        for used in sorted({1, 2, 4, there // 2} & set(range(1, there))):
            yield Fault(
                "rails",
                f"one rail is used: 1 of {there} NICs" if used == 1 else f"{used} of {there} NICs are used",
                replace(cluster, machine=_first_nics(cluster.machine, used)),
                HARDWARE,
                "NCCL_DEBUG=INFO prints `NET/IB : Using` and the ports; `ibstat` lists the ports that are up",
                "unset NCCL_IB_HCA or name all, bring all ports up, give a container all devices",
                unless=("socket", "using_socket"),
            )


def _pcie_half(cluster: Cluster) -> Iterator[Fault]:
    machine = cluster.machine
    if any(k.kind is LinkKind.PCIE for k in machine.links):
        yield Fault(
            "pcie_half",
            "PCIe runs at half its width, or a generation lower",
            replace(cluster, machine=_halved(machine)),
            HARDWARE,
            "`lspci -vv` of each GPU, NIC and switch, under load: LnkSta as LnkCap",
            "reseat the card or its riser, set the slot's speed in the BIOS, look for AER errors in dmesg",
        )


def _cpu_link(cluster: Cluster) -> Iterator[Fault]:
    machine = cluster.machine
    if cluster.nodes > 1 and len(machine.of_kind(DeviceKind.CPU)) > 1 and machine.nics:
        yield Fault(
            "cpu_link",
            "traffic to other nodes goes over the CPU link: GPUs use NICs of another socket",
            replace(cluster, machine=_far(machine)),
            HARDWARE,
            "`nvidia-smi topo -m` shows PIX or PXB, not SYS, between each GPU and its NIC; "
            "NCCL_DEBUG_SUBSYS=GRAPH names each channel's NIC",
            "list NICs in the GPUs' order, bind ranks to their GPU's NUMA node, give a VM its instance's "
            "NCCL_TOPO_FILE",
            unless=("socket", "using_socket"),
        )


def _sockets(cluster: Cluster) -> Iterator[Fault]:
    """Sockets over all NICs, and over one: NCCL uses a single interface where the others have no address."""
    machine = cluster.machine
    if cluster.nodes > 1 and cluster.fabric and cluster.fabric.name != "tcp":
        for used in sorted({1, len(machine.nics)}, reverse=True):
            one = ", over one interface" if used < len(machine.nics) else ""
            plain = _changed(_first_nics(machine, used), DeviceKind.NIC, _no_gdr)
            yield Fault(
                "sockets",
                f"sockets instead of {cluster.fabric.name}{one}: data goes through the kernel's TCP, not the fabric's "
                "plugin",
                replace(cluster, machine=plain, fabric=FABRICS["tcp"]),
                HARDWARE,
                "NCCL_DEBUG=INFO prints `Using network` and Socket, or the fabric's name",
                "put the fabric's NCCL plugin where NCCL finds it (aws-ofi-nccl, the cloud's own), unset NCCL_NET and "
                "NCCL_IB_DISABLE",
                slower=KERNEL,
                signs=("socket", "using_socket", "no_ib"),
                unless=("gdrdma", "staged", "using_other"),
                settings={"NCCL_IB_DISABLE": ("1",), "NCCL_NET": ("socket",), "NCCL_NET_PLUGIN": ("none",)},
            )


def _no_p2p(gpu: Device) -> Device:
    return replace(gpu, attributes=MappingProxyType({**gpu.attributes, "p2p": "0"}))


def _no_gdr(nic: Device) -> Device:
    return replace(nic, gdr=False)


def _changed(machine: Machine, kind: DeviceKind, change: Callable[[Device], Device]) -> Machine:
    return replace(machine, devices=tuple(change(d) if d.kind is kind else d for d in machine.devices))


def _without_direct(machine: Machine) -> Machine:
    """The machine without the links between GPUs and their switches."""
    links = tuple(k for k in machine.links if k.kind not in DIRECT)
    return _without(replace(machine, links=links), machine.of_kind(DeviceKind.NVSWITCH))


def _first_nics(machine: Machine, used: int) -> Machine:
    return _without(machine, machine.nics[used:])


def _without(machine: Machine, gone: Collection[int]) -> Machine:
    """The machine without some devices and their links."""
    return machine.of_devices([n for n in range(len(machine.devices)) if n not in gone])


def _halved(machine: Machine) -> Machine:
    """The machine with PCIe of half the lanes; a NIC's rate is cut to its slot's."""
    links = tuple(
        replace(k, bandwidth_Bps=k.bandwidth_Bps / 2, width=max(k.width // 2, 1)) if k.kind is LinkKind.PCIE else k
        for k in machine.links
    )
    slots = {k.source: k.bandwidth_Bps for k in links if k.kind is LinkKind.PCIE and k.source in machine.nics}
    devices = tuple(
        replace(d, rate_Bps=min(d.rate_Bps, slots[n])) if n in slots else d for n, d in enumerate(machine.devices)
    )
    return replace(machine, devices=devices, links=links)


def _far(machine: Machine) -> Machine:
    """The machine with all NICs at a CPU of their own, a CPU link from every other."""
    cpus = machine.of_kind(DeviceKind.CPU)
    between = max((k for k in machine.links if k.kind is LinkKind.CPU), key=lambda k: k.bandwidth_Bps, default=None)
    if between is None:
        return machine
    far = len(machine.devices)
    links = []
    for k in machine.links:
        if k.source in machine.nics:
            k = replace(k, target=far)
        elif k.target in machine.nics:
            k = replace(k, source=far)
        links.append(k)
    for cpu in cpus:
        links += both_ways(replace(between, source=cpu, target=far))
    one = replace(machine.devices[cpus[0]], name="another socket", numa=-1)
    return replace(machine, devices=(*machine.devices, one), links=tuple(links))
