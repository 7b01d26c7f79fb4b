"""Trees as Linux shows them in /sys and /proc, of machines that are not here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

GEN = {3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe"}
PORT, SWITCH = (0x060400, 0x8086, 0x352A), (0x060400, 0x1000, 0xC030)
H100, CX7, NVME, NVSWITCH = (
    (0x030200, 0x10DE, 0x2330), (0x020700, 0x15B3, 0x1021), (0x010802, 0x144D, 0xA80A), (0x068000, 0x10DE, 0x22A3),
)  # fmt: skip
VIRTIO_NET, VIRTIO_DISK = (0x020000, 0x1AF4, 0x1041), (0x010000, 0x1AF4, 0x1042)
ROOTS = "sys/devices/pci0000:"


class SysTree:
    """Writes the files of its arguments below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str | int) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", encoding="utf-8")

    def link(self, path: str, to: str) -> None:
        """A relative link, as Linux makes them."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.path.relpath(self.root / to, place.parent))

    def cpu(
        self, vendor: str = "GenuineIntel", family: int = 6, model: int = 143, name: str = "Xeon", flags: str = ""
    ) -> None:
        fields = {"processor": 0, "vendor_id": vendor, "cpu family": family, "model": model, "model name": name}
        lines = [f"{key}\t: {text}" for key, text in (fields | {"flags": f"fpu {flags}"}).items()]
        self.write("proc/cpuinfo", "\n".join(lines))

    def two_nodes(self, usable: list[int]) -> None:
        """The first of the usable cores on node 0, and all others on node 1."""
        self.write("sys/devices/system/node/online", "0-1")
        self.node(0, range(usable[0] + 1), 0, "10 21")
        self.node(1, range(usable[0] + 1, usable[-1] + 1), 1, "21 10")

    def node(self, number: int, cpus: range, package: int, distances: str) -> None:
        """A NUMA node whose CPUs share one L3, and an L2 each."""
        at = f"sys/devices/system/node/node{number}"
        listed = f"{cpus.start}-{cpus.stop - 1}"
        self.write(f"{at}/cpulist", listed)
        self.write(f"{at}/distance", distances)
        self.write(f"{at}/meminfo", f"Node {number} MemTotal:       1048576 kB")
        for cpu in cpus:
            where = f"sys/devices/system/cpu/cpu{cpu}"
            self.write(f"{where}/topology/physical_package_id", package)
            for index, (level, kind, size, sharing) in enumerate(
                [(1, "Data", "48K", cpu), (2, "Unified", "2048K", cpu), (3, "Unified", "32768K", listed)]
            ):
                for name, content in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", sharing)):
                    self.write(f"{where}/cache/index{index}/{name}", content)

    def pci(
        self,
        path: str,
        ids: tuple[int, int, int],
        now: tuple[int, int] | None = (5, 16),
        most: tuple[int, int] | None = None,
        numa: int = -1,
        **other: str,
    ) -> str:
        """A device, below a root complex and the bridges over it: "00/0000:00:01.0/0000:01:00.0". `now` and `most` are
        (generation, lanes)."""
        at = ROOTS + path
        for name, number, digits in zip(("class", "vendor", "device"), ids, (6, 4, 4), strict=True):
            self.write(f"{at}/{name}", f"0x{number:0{digits}x}")
        self.write(f"{at}/numa_node", numa)
        for which, speed in (("current", now), ("max", most or now)):
            if speed:
                self.write(f"{at}/{which}_link_speed", GEN[speed[0]])
                self.write(f"{at}/{which}_link_width", speed[1])
        for name, content in other.items():
            self.write(f"{at}/{name}", content)
        self.link(f"sys/bus/pci/devices/{path.split('/')[-1]}", at)
        return path

    def net(self, path: str, name: str, **files: str | int) -> None:
        """An interface of a PCI device."""
        at = f"{ROOTS}{path}/net/{name}"
        for file, content in files.items():
            self.write(f"{at}/{file}", content)
        self.link(f"{at}/device", ROOTS + path)
        self.link(f"sys/class/net/{name}", at)

    def rdma(self, path: str, name: str, rate: str, layer: str, ports: int = 1, state: str = "4: ACTIVE") -> None:
        """An RDMA device of a PCI device."""
        at = f"{ROOTS}{path}/infiniband/{name}"
        self.write(f"{at}/node_guid", "b8ce:f603:00aa:0001")
        for port in range(1, ports + 1):
            for file, content in {"rate": rate, "link_layer": layer, "state": state}.items():
                self.write(f"{at}/ports/{port}/{file}", content)
        self.link(f"{at}/device", ROOTS + path)
        self.link(f"sys/class/infiniband/{name}", at)

    def nvme(self, path: str, name: str, model: str) -> None:
        at = f"{ROOTS}{path}/nvme/{name}"
        self.write(f"{at}/model", model)
        self.link(f"{at}/device", ROOTS + path)
        self.link(f"sys/class/nvme/{name}", at)

    def kfd(self, node: int, properties: Mapping[str, int], links: Mapping[int, int]) -> None:
        """A node of KFD's, and its xGMI links: MB/s by node."""
        at = f"sys/class/kfd/kfd/topology/nodes/{node}"
        self.write(f"{at}/properties", "\n".join(f"{key} {value}" for key, value in properties.items()))
        for n, (to, MBps) in enumerate(links.items()):
            self.write(
                f"{at}/io_links/{n}/properties", f"type 11\nnode_from {node}\nnode_to {to}\nmax_bandwidth {MBps}"
            )


def gpu_server(root: Path) -> SysTree:
    """Two sockets, each with two PCIe switches with two H100 and an InfiniBand card each; four NVSwitches, one drive.
    The switch of gpu4 and gpu5 runs at half width, gpu7 idles at PCIe 3."""
    tree = SysTree(root)
    tree.cpu(name="Intel(R) Xeon(R) Platinum 8480C")
    for socket in range(2):
        tree.node(socket, range(4 * socket, 4 * socket + 4), socket, "10 21" if socket == 0 else "21 10")
        for k in range(2):
            n, bus = 2 * socket + k, 0x10 + 0x40 * socket + 0x10 * k
            root_port = f"{bus:02x}/0000:{bus:02x}:01.0"
            tree.pci(root_port, PORT, numa=socket)
            up = tree.pci(f"{root_port}/0000:{bus + 1:02x}:00.0", SWITCH, (5, 8 if n == 2 else 16), (5, 16), socket)
            for slot, ids in enumerate((H100, H100, CX7)):
                down = tree.pci(f"{up}/0000:{bus + 2:02x}:{slot:02x}.0", SWITCH, numa=socket)
                idle = n == 3 and slot == 1
                path = tree.pci(f"{down}/0000:{bus + 3 + slot:02x}:00.0", ids, (3 if idle else 5, 16), (5, 16), socket)
            tree.rdma(path, f"mlx5_{n}", "400 Gb/sec (4X NDR)", "InfiniBand")
            tree.net(path, f"ib{n}", speed=400000, operstate="up")
    for k in range(4):
        tree.pci(f"a0/0000:a0:0{k + 1}.0/0000:a{k + 1}:00.0", NVSWITCH, (4, 2), numa=1)
    tree.nvme(tree.pci("b0/0000:b0:01.0/0000:b1:00.0", NVME, (4, 4), numa=1), "nvme0", "SAMSUNG MZQL2")
    return tree


def virtual_machine(root: Path) -> SysTree:
    """A cloud's tree: eight H100 and a virtio card right below the root, no NUMA node, no link speed."""
    tree = SysTree(root)
    tree.cpu(flags="hypervisor")
    tree.node(0, range(4), 0, "10")
    for k in range(8):
        tree.pci(f"00/0000:00:1{k}.0", H100, None)
    tree.net(tree.pci("00/0000:00:03.0", VIRTIO_NET, None), "eth0", speed=-1, operstate="up")
    return tree
