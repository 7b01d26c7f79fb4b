"""Faults within a machine: its links, peer-to-peer, and what NCCL was kept from taking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import DeviceKind, LinkKind
from ringtree.nccl.faults.changes import DIRECT, changed, far, halved, up_and_down, without_direct, without_p2p
from ringtree.nccl.faults.fault import HARDWARE, SOFTWARE, Fault
from ringtree.nccl.tuning.variables import as_variable

HOPPER = 90
"""The compute capability, times 10, from which NVSwitches reduce."""


def p2p_off(cluster: Cluster) -> Iterator[Fault]:
    """GPUs of a node by the host's memory."""
    machine = cluster.machine
    if len(machine.gpus) > 1 and any(machine.devices[g].attributes.get("p2p") != "0" for g in machine.gpus):
        yield Fault(
            "p2p_off",
            "P2P is off: GPUs of a node reach one another through the host's memory and, between sockets, over the "
            "CPU link",
            replace(cluster, machine=changed(without_direct(machine), DeviceKind.GPU, without_p2p)),
            SOFTWARE,
            "NCCL_DEBUG=INFO prints `via SHM` where it is off, `via P2P` where it is on; `nvidia-smi topo -p2p r`",
            "unset NCCL_P2P_DISABLE and NCCL_P2P_LEVEL; switch off ACS and the IOMMU's translation",
            signs=("shm", "p2p_disabled"),
            unless=("p2p",),
            settings={"NCCL_P2P_DISABLE": ("1",), "NCCL_P2P_LEVEL": ("loc", "0")},
        )


def nvlink_unused(cluster: Cluster) -> Iterator[Fault]:
    """Links between GPUs that are down, or that NCCL does not see."""
    machine = cluster.machine
    if any(k.kind in DIRECT for k in machine.links):
        yield Fault(
            "nvlink_unused",
            "the links between GPUs (NVLink, xGMI) are not used: traffic goes over PCIe and, between sockets, over the "
            "CPU link",
            replace(cluster, machine=without_direct(machine)),
            SOFTWARE,
            "`nvidia-smi topo -m` shows NV# between all GPUs and `nvidia-smi nvlink --status` has no link down; "
            "NCCL_DEBUG_SUBSYS=GRAPH prints the links that NCCL found",
            "reset GPUs whose links are down, start Fabric Manager where there are NVSwitches, give a container or VM "
            "all the GPUs that are linked",
        )


def pcie_half(cluster: Cluster) -> Iterator[Fault]:
    """PCIe links that trained at less than they can."""
    machine = cluster.machine
    if any(k.kind is LinkKind.PCIE for k in machine.links):
        yield Fault(
            "pcie_half",
            "PCIe runs at half its width, or a generation lower",
            replace(cluster, machine=halved(machine)),
            HARDWARE,
            "`lspci -vv` of each GPU, NIC and switch, under load: LnkSta as LnkCap",
            "reseat the card or its riser, set the slot's speed in the BIOS, look for AER errors in dmesg",
        )


def acs(cluster: Cluster) -> Iterator[Fault]:
    """Access Control Services on one node: GPUs below one switch meet at the CPU."""
    machine = cluster.machine
    if cluster.nodes == 1 and not any(k.kind in DIRECT for k in machine.links):
        plain = replace(machine.of_devices([n for n in range(len(machine.devices)) if n not in machine.nics]))
        yield Fault(
            "acs",
            "ACS is on: PCIe switches send what passes between two GPUs up to the CPU and down again",
            replace(cluster, machine=up_and_down(plain)),
            HARDWARE,
            "`lspci -vvv | grep ACSCtl` of all bridges, as root: SrcValid- everywhere; `p2pBandwidthLatencyTest`",
            "switch off ACS in the BIOS or by setpci, and the IOMMU's translation",
            slower=SOFTWARE,
            unless=("shm",),
        )


def numa(cluster: Cluster) -> Iterator[Fault]:
    """Processes bound to another socket than their GPU: their buffers in the host's memory lie there."""
    machine = cluster.machine
    if cluster.nodes == 1 and len(machine.gpus) > 1 and not any(k.kind in DIRECT for k in machine.links):
        yield Fault(
            "numa",
            "processes run on another socket than their GPU: the host's buffers are across the CPU link",
            replace(cluster, machine=far(machine, machine.gpus[1::2])),
            SOFTWARE,
            "`numactl --show` or `taskset -pc PID` of each rank beside `nvidia-smi topo -m`, CPU Affinity",
            "bind each rank to its GPU's NUMA node, unset NCCL_IGNORE_CPU_AFFINITY, give a VM its host's topology",
            unless=("p2p",),
            settings={"NCCL_IGNORE_CPU_AFFINITY": ("1",)},
        )


def nvls_off(cluster: Cluster) -> Iterator[Fault]:
    """NVSwitches that do not reduce; found in figures alone it is a healthy ring or tree."""
    machine = cluster.machine
    if machine.of_kind(DeviceKind.NVSWITCH) and all(machine.devices[g].sm >= HOPPER for g in machine.gpus):
        yield Fault(
            "nvls_off",
            "NVLink SHARP is off: the GPUs reduce, not their switches",
            cluster,
            HARDWARE,
            "NCCL_DEBUG=INFO prints `NVLS multicast support is available` where it can be on",
            "start Fabric Manager, unset NCCL_NVLS_ENABLE, give a VM or container the switches or IMEX channels",
            signs=("no_nvls",),
            settings={"NCCL_NVLS_ENABLE": ("0",)},
            excluded=("nvls", "nvls_tree"),
        )


def protocol_forced(cluster: Cluster) -> Iterator[Fault]:
    """A protocol for small sizes at all sizes."""
    for protocol in ("ll", "ll128"):
        spelt = as_variable(protocol)
        yield Fault(
            "protocol",
            f"NCCL takes protocol {spelt} for large sizes too, which costs bandwidth",
            cluster,
            HARDWARE,
            "NCCL_DEBUG=INFO prints NCCL_PROTO where it is set; NCCL_DEBUG_SUBSYS=TUNING the choice of each call",
            "unset NCCL_PROTO, and look for a tuner's file (NCCL_TUNER_PLUGIN, NCCL_TUNER_CONFIG_FILE)",
            settings={"NCCL_PROTO": (protocol,)},
            protocol=protocol,
        )
