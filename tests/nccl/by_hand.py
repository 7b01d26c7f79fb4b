"""Machines built by hand, so that a search is tested against the machine written here and not against a catalogue."""

from __future__ import annotations

from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, Machine, both_ways
from ringtree.topology.fabrics import Fabric

FABRIC = Fabric("infiniband", True, True, 0.95, 2e-6, 1e-7, 2e-7, "by hand", sharp=True)
GIGABIT_Bps = 1e9 / 8
PCIE_LANE_Bps = {3: 0.985e9, 4: 1.969e9, 5: 3.938e9}


class Maker:
    """Devices by name and links in both directions; `machine` is what was made so far."""

    def __init__(self) -> None:
        self.devices: list[Device] = []
        self.links: list[Link] = []

    def add(self, kind: DeviceKind, name: str, **attributes: object) -> int:
        self.devices.append(Device(name, kind, **attributes))  # type: ignore[arg-type]
        return len(self.devices) - 1

    def join(self, a: int, b: int, kind: LinkKind, Bps: float, generation: int = 0, width: int = 1) -> None:
        self.links += both_ways(Link(a, b, kind, Bps, 0.0, generation, width))

    def pcie(self, a: int, b: int, generation: int, width: int = 16) -> None:
        self.join(a, b, LinkKind.PCIE, PCIE_LANE_Bps[generation] * width, generation, width)

    def machine(self, name: str) -> Machine:
        return Machine(name, tuple(self.devices), tuple(self.links))


def on_switch(
    gpus: int, sm: int, nvlinks: int, nvlink_Bps: float, pcie: int, nic_Gbps: float, nics: int = -1
) -> Machine:
    """GPUs on one NVSwitch plane under two CPUs, with a PCIe switch for each GPU and its NIC."""
    m = Maker()
    cpus = [m.add(DeviceKind.CPU, f"cpu{n}", vendor="intel", model="Sapphire Rapids") for n in range(2)]
    m.join(*cpus, LinkKind.CPU, 48e9)
    switch = m.add(DeviceKind.NVSWITCH, "nvswitch")
    for n in range(gpus):
        bridge = m.add(DeviceKind.PCI, f"pci{n}")
        gpu = m.add(DeviceKind.GPU, f"gpu{n}", vendor="nvidia", sm=sm)
        m.pcie(cpus[n * 2 // gpus], bridge, pcie)
        m.pcie(bridge, gpu, pcie)
        m.join(gpu, switch, LinkKind.NVLINK, nvlinks * nvlink_Bps, 4, nvlinks)
        if n < (gpus if nics < 0 else nics):
            nic = m.add(DeviceKind.NIC, f"nic{n}", rate_Bps=nic_Gbps * GIGABIT_Bps)
            m.pcie(bridge, nic, pcie)
    return m.machine(f"{gpus} GPUs of sm{sm} on a switch")


def h100(nic_Gbps: float = 400, nics: int = -1, gpus: int = 8) -> Machine:
    return on_switch(gpus, 90, 18, 25e9, 5, nic_Gbps, nics)


def a100(nic_Gbps: float = 200, nics: int = -1) -> Machine:
    return on_switch(8, 80, 12, 25e9, 4, nic_Gbps, nics)


def cube_mesh() -> Machine:
    """Eight V100 in the hybrid cube mesh: six NVLinks each, doubled on one edge to every neighbour but two."""
    m = Maker()
    cpus = [m.add(DeviceKind.CPU, f"cpu{n}", vendor="intel", model="Broadwell") for n in range(2)]
    m.join(*cpus, LinkKind.CPU, 19.2e9)
    gpus = []
    for n in range(8):
        if n % 2 == 0:
            bridge = m.add(DeviceKind.PCI, f"pci{n // 2}")
            m.pcie(cpus[n // 4], bridge, 3)
            nic = m.add(DeviceKind.NIC, f"nic{n // 2}", rate_Bps=100 * GIGABIT_Bps)
            m.pcie(bridge, nic, 3)
        gpus.append(m.add(DeviceKind.GPU, f"gpu{n}", vendor="nvidia", sm=70))
        m.pcie(bridge, gpus[-1], 3)
    double = ((0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7))
    single = ((0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7))
    for width, pairs in ((2, double), (1, single)):
        for a, b in pairs:
            m.join(gpus[a], gpus[b], LinkKind.NVLINK, width * 25e9, 2, width)
    return m.machine("hybrid cube mesh")


def meshed(gpus: int, sm: int, width: int) -> Machine:
    """GPUs with NVLinks from each to each, one to a CPU."""
    m = Maker()
    for n in range(gpus):
        cpu = m.add(DeviceKind.CPU, f"cpu{n}", vendor="amd")
        gpu = m.add(DeviceKind.GPU, f"gpu{n}", vendor="nvidia", sm=sm)
        m.pcie(cpu, gpu, 4)
    gpu_numbers = [n for n, d in enumerate(m.devices) if d.kind is DeviceKind.GPU]
    for k, a in enumerate(gpu_numbers):
        for b in gpu_numbers[k + 1 :]:
            m.join(a, b, LinkKind.NVLINK, width * 25e9, 3, width)
    return m.machine(f"{gpus} GPUs of sm{sm}, each with each")


def two_sockets(
    vendor: str, pcie: int, width: int = 16, gpus: int = 2, nic_Gbps: float = 0.0, sockets: int = 2, model: str = ""
) -> Machine:
    """GPUs right under the CPUs, shared out evenly, and as many NICs; `width` is the last GPU's."""
    m = Maker()
    cpus = [m.add(DeviceKind.CPU, f"cpu{n}", vendor=vendor, model=model) for n in range(sockets)]
    if sockets > 1:
        m.join(*cpus, LinkKind.CPU, 32e9)
    for n in range(gpus):
        cpu = cpus[n * sockets // gpus]
        m.pcie(cpu, m.add(DeviceKind.GPU, f"gpu{n}", vendor="nvidia", sm=80), pcie, width if n == gpus - 1 else 16)
        if nic_Gbps:
            m.pcie(cpu, m.add(DeviceKind.NIC, f"nic{n}", rate_Bps=nic_Gbps * GIGABIT_Bps, gdr=False), 3)
    return m.machine(f"{gpus} GPUs under {sockets} CPUs")


def one_gpu(sm: int) -> Machine:
    """A GPU and a NIC of 100 Gbit/s under one PCIe 3 switch."""
    m = Maker()
    bridge = m.add(DeviceKind.PCI, "pci")
    m.pcie(m.add(DeviceKind.CPU, "cpu", vendor="intel"), bridge, 3)
    m.pcie(bridge, m.add(DeviceKind.GPU, "gpu", vendor="nvidia", sm=sm), 3)
    m.pcie(bridge, m.add(DeviceKind.NIC, "nic", rate_Bps=100 * GIGABIT_Bps), 3)
    return m.machine(f"one GPU of sm{sm}")


def two_under_a_switch(model: str) -> Machine:
    """Two GPUs under one PCIe 4 switch."""
    m = Maker()
    bridge = m.add(DeviceKind.PCI, "pci")
    m.pcie(m.add(DeviceKind.CPU, "cpu", vendor="intel"), bridge, 4)
    for n in range(2):
        m.pcie(bridge, m.add(DeviceKind.GPU, f"gpu{n}", vendor="nvidia", model=model, sm=80), 4)
    return m.machine(f"two {model} under a switch")


def xgmi_ring() -> Machine:
    """Four GPUs of AMD's, each joined to two others by xGMI."""
    m = Maker()
    cpu = m.add(DeviceKind.CPU, "cpu", vendor="intel")
    gpus = [m.add(DeviceKind.GPU, f"gpu{n}", vendor="amd", model="Vega 20") for n in range(4)]
    for gpu in gpus:
        m.pcie(cpu, gpu, 3)
    for a, b in ((0, 1), (1, 3), (3, 2), (2, 0)):
        m.join(gpus[a], gpus[b], LinkKind.XGMI, 46e9)
    return m.machine("4 GPUs in a ring of xGMI")


def cluster(machine: Machine, nodes: int = 1, sharp: bool = False) -> Cluster:
    return Cluster(machine, nodes, FABRIC if nodes > 1 else None, sharp=sharp)
