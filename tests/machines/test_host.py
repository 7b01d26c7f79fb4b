"""The limits and the network of a host, in trees as Linux shows them."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from ringtree.machines.host.cgroups import ControlGroup, MemoryRoom, control_group
from ringtree.machines.host.interfaces import network_interfaces
from ringtree.machines.host.modules import GDRCOPY, PEER_MEMORY, loaded
from ringtree.machines.host.process_limits import ProcessLimit, process_limits
from ringtree.machines.host.rdma import rdma_ports, verbs_files
from ringtree.machines.sysfs import Sysfs
from tests.machines.sysfs_trees import CX7, VIRTIO_NET, SysTree, gpu_server

GIB = 1 << 30
V2 = "sys/fs/cgroup"
V1 = "9:memory:/docker/a\n4:cpu,cpuacct:/docker/a\n3:pids:/docker/a"


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/", {}, ControlGroup()),
        ("0::/", {"cpu.max": "max 100000", "memory.max": "max", "pids.max": "max"}, ControlGroup()),
        (
            "0::/",
            {"cpu.max": "150000 100000", "memory.max": 2 * GIB, "memory.current": GIB, "pids.max": 99},
            ControlGroup(1.5, MemoryRoom(GIB, 2 * GIB), 99),
        ),
        (  # the least of all groups around
            "0::/a/b",
            {"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000", "a/b/memory.max": 8, "a/memory.max": 4},
            ControlGroup(2.0, MemoryRoom(4, 4)),
        ),
        (  # a path of the machine, which the container does not see
            V1,
            {
                "cpu,cpuacct/cpu.cfs_quota_us": 50000,
                "cpu,cpuacct/cpu.cfs_period_us": 100000,
                "memory/memory.limit_in_bytes": GIB,
                "memory/memory.usage_in_bytes": 5,
                "pids/pids.max": 7,
            },
            ControlGroup(0.5, MemoryRoom(GIB - 5, GIB), 7),
        ),
        (V1, {"cpu/cpu.cfs_quota_us": -1, "memory/docker/a/memory.limit_in_bytes": 0x7FFFFFFFFFFFF000}, ControlGroup()),
        (  # pages of files, which the kernel drops
            "0::/a",
            {
                "a/memory.max": 8 * GIB,
                "a/memory.current": 8 * GIB - 9,
                "a/memory.stat": f"anon 7\ninactive_file {GIB}\n",
            },
            ControlGroup(None, MemoryRoom(GIB + 9, 8 * GIB)),
        ),
        (
            V1,
            {
                "memory/docker/a/memory.limit_in_bytes": 8,
                "memory/docker/a/memory.usage_in_bytes": 8,
                "memory/docker/a/memory.stat": "inactive_file 1\ntotal_inactive_file 3",
            },
            ControlGroup(None, MemoryRoom(3, 8)),
        ),
        (  # the group around has less left, of a larger limit
            "0::/a",
            {"a/memory.max": GIB, "a/memory.current": 5, "memory.max": 2 * GIB, "memory.current": 2 * GIB - 1},
            ControlGroup(None, MemoryRoom(1, 2 * GIB)),
        ),
        ("no line of this form", {"cpu.max": "broken"}, ControlGroup()),
    ],
)
def test_control_groups(tmp_path: Path, groups: str, files: dict[str, str | int], expected: ControlGroup) -> None:
    tree = SysTree(tmp_path)
    tree.write("proc/self/cgroup", groups)
    for name, content in files.items():
        tree.write(f"sys/fs/cgroup/{name}", content)
    assert control_group(Sysfs(tmp_path)) == expected


def test_limits_of_a_process(tmp_path: Path) -> None:
    tree = SysTree(tmp_path)
    tree.write(
        "proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max open files            1024                 unlimited            files     \n"
        "Max locked memory         65536                65536                bytes     \n"
        "Max realtime priority     0                    0                    ",
    )
    found = process_limits(Sysfs(tmp_path))
    assert found["Max open files"] == ProcessLimit(1024, inf)
    assert found["Max locked memory"] == ProcessLimit(65536, 65536) and found["Max realtime priority"].soft == 0
    assert process_limits(Sysfs(tmp_path / "empty")) == {}
    assert process_limits(Sysfs(Path("/")))["Max open files"].soft > 0  # this process's own


def interface(tree: SysTree, name: str, **files: str | int) -> None:
    """One without a device."""
    for file, content in files.items():
        tree.write(f"sys/class/net/{name}/{file.replace('__', '/')}", content)


def test_interfaces_are_marked_by_their_kind(tmp_path: Path) -> None:
    tree = SysTree(tmp_path)
    card = tree.pci("00/0000:00:03.0", VIRTIO_NET, None)
    tree.net(card, "eth0", speed=25000, operstate="up", mtu=9000, type=1)
    tree.write("sys/bus/virtio/drivers/virtio_net/bind", "")
    tree.link("sys/devices/pci0000:00/0000:00:03.0/driver", "sys/bus/virtio/drivers/virtio_net")
    interface(tree, "lo", operstate="unknown", flags="0x9", mtu=65536, type=772)
    interface(tree, "docker0", operstate="down", mtu=1500, type=1, bridge__bridge_id="8000", speed=-1)
    interface(tree, "veth1", operstate="up", mtu=1500, type=1, speed=10000)
    interface(tree, "bond0", operstate="up", mtu=1500, type=1, speed=50000, bonding__slaves="eth0 eth1")
    interface(tree, "vlan7", operstate="up", mtu=1500, type=1, uevent="DEVTYPE=vlan\nINTERFACE=vlan7")
    interface(tree, "tun0", operstate="unknown", flags="0x1091", mtu=1400, type=65534, tun_flags="0x1")
    interface(tree, "wrong", operstate="", mtu="many", speed=4294967295)
    tree.write("sys/class/net/bonding_masters", "bond0")  # a file among the folders
    found = {each.name: each for each in network_interfaces(Sysfs(tmp_path))}
    assert {name: (each.kind, each.up, each.physical) for name, each in found.items()} == {
        "eth0": ("device", True, True),
        "lo": ("loopback", True, False),
        "docker0": ("bridge", False, False),
        "veth1": ("virtual", True, False),
        "bond0": ("bond", True, True),
        "vlan7": ("vlan", True, True),
        "tun0": ("tunnel", True, False),
        "wrong": ("virtual", False, False),
    }
    assert (found["eth0"].rate_Bps, found["eth0"].mtu_bytes, found["eth0"].driver) == (3.125e9, 9000, "virtio_net")
    assert found["bond0"].lower == ("eth0", "eth1")
    assert (found["wrong"].rate_Bps, found["wrong"].mtu_bytes, found["docker0"].rate_Bps) == (0, 0, 0)
    assert network_interfaces(Sysfs(tmp_path / "empty")) == ()


def test_rdma_devices_and_modules(tmp_path: Path) -> None:
    tree = gpu_server(tmp_path)
    path = tree.pci("c0/0000:c0:01.0", CX7)
    tree.rdma(path, "efa_0", "100 Gb/sec (4X EDR)", "Unspecified", state="1: DOWN")
    tree.write("sys/bus/pci/drivers/efa/bind", "")
    tree.link(f"sys/devices/pci0000:{path}/driver", "sys/bus/pci/drivers/efa")
    sysfs = Sysfs(tmp_path)
    found = {port.name: port for port in rdma_ports(sysfs)}
    assert set(found) == {"efa_0", "mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"}
    assert (found["mlx5_0"].layer, found["mlx5_0"].rate_Bps, found["mlx5_0"].up) == ("InfiniBand", 50e9, True)
    assert not found["mlx5_0"].efa and found["efa_0"].efa and found["efa_0"].driver == "efa" and not found["efa_0"].up
    assert verbs_files(sysfs) == () and loaded(sysfs, PEER_MEMORY) == loaded(sysfs, GDRCOPY) == ""
    tree.write("dev/infiniband/uverbs0", "")
    tree.write("dev/infiniband/rdma_cm", "")
    tree.write("proc/modules", "nv_peer_mem 16384 0 - Live 0x0\nnvidia 1 0 - Live 0x0")
    tree.write("sys/module/gdrdrv/refcnt", "0")
    assert verbs_files(sysfs) == ("uverbs0",)
    assert loaded(sysfs, PEER_MEMORY) == "nv_peer_mem" and loaded(sysfs, GDRCOPY) == "gdrdrv"
