"""Faults of the ways between machines: NICs, GPUDirect RDMA, the fabric's plugin, the switches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import DeviceKind
from ringtree.nccl.faults.changes import (
    capped,
    changed,
    far,
    first_nics,
    through_memory,
    up_and_down,
    with_attribute,
    without_gdr,
)
from ringtree.nccl.faults.fault import HARDWARE, KERNEL, SOFTWARE, Fault
from ringtree.nccl.link_speeds import runs_rccl
from ringtree.nccl.releases import BEFORE_RATE, CHANNELS_BY_RATE, MODELLED
from ringtree.topology.fabrics import FABRICS


def gdr_off(cluster: Cluster) -> Iterator[Fault]:
    """Data by buffers in the host: its last level of cache holds them, or its memory has to carry them too."""
    machine = cluster.machine
    able = any(machine.devices[n].gdr for n in machine.nics) and any(machine.devices[g].gdr for g in machine.gpus)
    if cluster.nodes > 1 and cluster.fabric and cluster.fabric.gdr and able:
        staged = up_and_down(changed(machine, DeviceKind.NIC, without_gdr))
        for path, by in ((staged, ""), (through_memory(staged), ", which limits it")):
            yield Fault(
                "gdr_off",
                f"GPUDirect RDMA is off: data to other nodes is copied through the host's memory{by}",
                replace(cluster, machine=path),
                HARDWARE,
                "NCCL_DEBUG=INFO prints `via NET/…/GDRDMA` where it is on; `lsmod | grep nvidia_peermem`",
                "load nvidia-peermem or use DMA-BUF, unset NCCL_NET_GDR_LEVEL, switch off ACS",
                slower=SOFTWARE,
                signs=("staged", "gdr_disabled"),
                unless=("gdrdma", "socket", "using_socket"),
                settings={"NCCL_NET_GDR_LEVEL": ("loc", "0"), "NCCL_NET_GDR_DISABLE": ("1",)},
            )


def few_nics(cluster: Cluster) -> Iterator[Fault]:
    """NICs that are down or not given to NCCL, one of them or most."""
    there = len(cluster.machine.nics)
    if cluster.nodes > 1:
        for used in sorted({1, 2, 4, there // 2, there - 1} & set(range(1, there))):
            yield Fault(
                "rails",
                f"one rail is used: 1 of {there} NICs" if used == 1 else f"{used} of {there} NICs are used",
                replace(cluster, machine=first_nics(cluster.machine, used)),
                HARDWARE,
                "NCCL_DEBUG=INFO prints `NET/IB : Using` and the ports; `ibstat` lists the ports that are up",
                "unset NCCL_IB_HCA or name all, bring all ports up, give a container all devices",
                unless=("socket", "using_socket"),
            )


def nic_half(cluster: Cluster) -> Iterator[Fault]:
    """A NIC at half its speed: all channels have equal shares, so that the slowest NIC paces all."""
    machine = cluster.machine
    if cluster.nodes > 1 and machine.nics:
        slow = {n: machine.devices[n].rate_Bps / 2 for n in machine.nics if machine.devices[n].rate_Bps}
        yield Fault(
            "nic_half",
            "a NIC runs at half its speed, and its channels hold up all others",
            replace(cluster, machine=capped(machine, slow)),
            HARDWARE,
            "`ibstat` or `ethtool` of every NIC of every node: Rate, and lanes; `ib_write_bw` rail by rail",
            "reseat or replace cable and transceiver, set the port's speed, look for a bond with one leg down",
            unless=("socket", "using_socket"),
        )


def acs(cluster: Cluster) -> Iterator[Fault]:
    """Access Control Services between nodes: GPU and NIC below one switch meet at the CPU."""
    if cluster.nodes > 1 and cluster.machine.nics:
        yield Fault(
            "acs",
            "ACS is on: PCIe switches send what passes between GPU and NIC up to the CPU and down again",
            replace(cluster, machine=up_and_down(cluster.machine)),
            HARDWARE,
            "`lspci -vvv | grep ACSCtl` of all bridges, as root: SrcValid- everywhere; "
            "`ib_write_bw --use_cuda` beside host memory",
            "switch off ACS in the BIOS or by setpci, and the IOMMU's translation; a VM needs ATS instead",
            slower=SOFTWARE,
            unless=("socket", "using_socket", "staged"),
        )


def cpu_link(cluster: Cluster) -> Iterator[Fault]:
    """GPUs that use NICs of another socket."""
    machine = cluster.machine
    if cluster.nodes > 1 and len(machine.of_kind(DeviceKind.CPU)) > 1 and machine.nics:
        yield Fault(
            "cpu_link",
            "traffic to other nodes goes over the CPU link: GPUs use NICs of another socket",
            replace(cluster, machine=far(machine, machine.nics)),
            HARDWARE,
            "`nvidia-smi topo -m` shows PIX or PXB, not SYS, between each GPU and its NIC; "
            "NCCL_DEBUG_SUBSYS=GRAPH names each channel's NIC",
            "list NICs in the GPUs' order, bind ranks to their GPU's NUMA node, give a VM its instance's "
            "NCCL_TOPO_FILE",
            unless=("socket", "using_socket"),
        )


def pxn_off(cluster: Cluster) -> Iterator[Fault]:
    """A GPU reaches the NICs of others over PCIe and the CPU, not by NVLink and the GPU that is near the NIC."""
    machine = cluster.machine
    if cluster.nodes > 1 and len(machine.gpus) > 1 and machine.nics:
        off = changed(machine, DeviceKind.NIC, lambda nic: with_attribute(nic, "pxn"))
        yield Fault(
            "pxn_off",
            "PXN is off: GPUs reach other GPUs' NICs over PCIe and the CPU",
            replace(cluster, machine=off),
            HARDWARE,
            "NCCL_DEBUG=INFO names NCCL_PXN_DISABLE where it is set, and channels `via NET/…(n)` where PXN is on",
            "unset NCCL_PXN_DISABLE and NCCL_P2P_PXN_LEVEL",
            unless=("socket", "using_socket"),
            settings={"NCCL_PXN_DISABLE": ("1",)},
        )


def sockets(cluster: Cluster) -> Iterator[Fault]:
    """Sockets over all NICs, and over one: NCCL uses a single interface where the others have no address."""
    machine = cluster.machine
    if cluster.nodes > 1 and cluster.fabric and cluster.fabric.name != "tcp":
        for used in sorted({1, len(machine.nics)}, reverse=True):
            one = ", over one interface" if used < len(machine.nics) else ""
            plain = changed(first_nics(machine, used), DeviceKind.NIC, without_gdr)
            yield Fault(
                "sockets",
                f"sockets instead of {cluster.fabric.name}{one}: data goes through the kernel's TCP, not the fabric's "
                "plugin",
                replace(cluster, machine=plain, fabric=FABRICS["tcp"], sharp=False),
                HARDWARE,
                "NCCL_DEBUG=INFO prints `Using network` and Socket, or the fabric's name",
                "put the fabric's NCCL plugin where NCCL finds it (aws-ofi-nccl, the cloud's own), unset NCCL_NET and "
                "NCCL_IB_DISABLE",
                slower=KERNEL,
                signs=("socket", "using_socket", "no_ib"),
                unless=("gdrdma", "staged", "using_other"),
                settings={"NCCL_IB_DISABLE": ("1",), "NCCL_NET": ("socket",), "NCCL_NET_PLUGIN": ("none",)},
            )


def few_channels(cluster: Cluster) -> Iterator[Fault]:
    """Few channels for the sends and receives to another machine."""
    if cluster.nodes > 1 and not runs_rccl(cluster.machine) and (cluster.nccl or MODELLED) >= CHANNELS_BY_RATE:
        yield Fault(
            "few_channels",
            "a GPU has few channels for its peers of another machine, as before NCCL 2.29",
            replace(cluster, nccl=BEFORE_RATE),
            HARDWARE,
            "NCCL_DEBUG=VERSION prints the release; NCCL_NCHANNELS_PER_NET_PEER=8 brings the speed back",
            "NCCL 2.29 or later without NCCL_NCHANNELS_PER_NET_PEER, or that variable with 4 or 8",
            settings={"NCCL_NCHANNELS_PER_NET_PEER": ("1", "2")},
        )


def sharp_off(cluster: Cluster) -> Iterator[Fault]:
    """The network's switches do not reduce."""
    if cluster.sharp:
        yield Fault(
            "sharp_off",
            "SHARP is off: the network's switches pass the data on, and the GPUs reduce",
            replace(cluster, sharp=False),
            HARDWARE,
            "NCCL_DEBUG=INFO prints `SHARP` and CollNet where it is on; `sharp_hello`",
            "load nccl-rdma-sharp-plugins, start the aggregation manager, set NCCL_COLLNET_ENABLE=1",
            settings={"NCCL_COLLNET_ENABLE": ("0",)},
        )
