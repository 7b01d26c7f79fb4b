"""The NUMA node and the speed of a rank's cores, in trees of machines that are not here."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringtree.machines.host.cores import Cores, cores_of
from ringtree.machines.sysfs import Sysfs
from tests.machines.sysfs_trees import SysTree

CPUS = "sys/devices/system/cpu"


@pytest.fixture
def tree(tmp_path: Path) -> SysTree:
    return SysTree(tmp_path)


def two_sockets(tree: SysTree, distances: tuple[str, ...] = ("10 21", "21 10")) -> None:
    """Two sockets of four CPUs and their hyper-threads, as Linux numbers them."""
    tree.write("sys/devices/system/node/online", f"0-{len(distances) - 1}")
    for node, text in enumerate(distances):
        tree.node(node, range(4 * node, 4 * node + 4), node, text)
        listed = f"{4 * node}-{4 * node + 3},{64 + 4 * node}-{64 + 4 * node + 3}"
        tree.write(f"sys/devices/system/node/node{node}/cpulist", listed)


@pytest.mark.parametrize(
    ("cpus", "node"), [({0}, 0), ({1, 65}, 0), ({4, 5, 6, 7, 68}, 1), ({3, 4}, -1), (set(range(8)), -1), ({99}, -1)]
)
def test_a_machine_with_two_sockets(tree: SysTree, cpus: set[int], node: int) -> None:
    two_sockets(tree)
    assert cores_of(Sysfs(tree.root), cpus) == Cores(node, 1.0)


def test_nodes_of_a_socket_are_one(tree: SysTree) -> None:
    """An EPYC that shows four nodes a socket, at the distances that its firmware gives."""
    near, far = "10 12 12 12", "32 32 32 32"
    two_sockets(tree, (f"{near} {far}",) * 4 + (f"{far} {near}",) * 4)
    assert [cores_of(Sysfs(tree.root), {cpu}).node for cpu in (0, 5, 15, 18, 25, 31)] == [0, 0, 0, 4, 4, 4]
    assert cores_of(Sysfs(tree.root), range(16, 32)).node == 4
    assert cores_of(Sysfs(tree.root), range(12, 20)).node == -1


def test_one_socket_of_several_nodes_is_one(tree: SysTree) -> None:
    two_sockets(tree, ("10 12", "12 10"))
    assert cores_of(Sysfs(tree.root), {0}).node is None


def test_a_node_of_memory_alone_is_none(tree: SysTree) -> None:
    tree.write("sys/devices/system/node/online", "0-1")
    tree.node(0, range(4), 0, "10 40")
    tree.write("sys/devices/system/node/node1/cpulist", "")
    tree.write("sys/devices/system/node/node1/distance", "40 10")
    assert cores_of(Sysfs(tree.root), {0}).node is None


@pytest.mark.parametrize(
    "files",
    [
        {},  # no NUMA in the kernel, or a container that hides /sys
        {"sys/devices/system/node/online": "0"},
        {"sys/devices/system/node/online": "0-1"},  # and the nodes themselves are hidden
        {"sys/devices/system/node/online": "two"},
        {"sys/devices/system/node/online": "0-1", "sys/devices/system/node/node0/cpulist": "0-3"},
    ],
)
def test_nothing_is_known_where_nothing_is_shown(tree: SysTree, files: dict[str, str]) -> None:
    for path, text in files.items():
        tree.write(path, text)
    assert cores_of(Sysfs(tree.root), {0, 1}) == Cores(None, 1.0)


def test_distances_that_are_hidden_make_no_nodes_near(tree: SysTree) -> None:
    two_sockets(tree, ("", "ten"))
    assert cores_of(Sysfs(tree.root), {4}).node == 1


@pytest.mark.parametrize(("cpus", "speed"), [({0, 1}, 1.0), ({2}, 446 / 1024), ({0, 3}, 446 / 1024), ((), 1.0)])
def test_cores_of_unlike_capacity(tree: SysTree, cpus: set[int], speed: float) -> None:
    """Two large and two small cores of an Arm."""
    for cpu, capacity in enumerate((1024, 1024, 446, 446)):
        tree.write(f"{CPUS}/cpu{cpu}/cpu_capacity", capacity)
    assert cores_of(Sysfs(tree.root), cpus).speed == speed


@pytest.mark.parametrize(("cpus", "speed"), [({0}, 1.0), ({16, 19}, 0.75), ({0, 16}, 0.75)])
def test_a_hybrid_processor(tree: SysTree, cpus: set[int], speed: float) -> None:
    """Eight performance cores with two threads each and four efficient ones."""
    tree.write("sys/devices/cpu_core/cpus", "0-15")
    tree.write("sys/devices/cpu_atom/cpus", "16-19")
    assert cores_of(Sysfs(tree.root), cpus).speed == 1, "no frequencies, as in a virtual machine"
    tree.write(f"{CPUS}/cpu0/cpufreq/cpuinfo_max_freq", 5200000)
    tree.write(f"{CPUS}/cpu16/cpufreq/cpuinfo_max_freq", 3900000)
    assert cores_of(Sysfs(tree.root), cpus).speed == speed


def test_this_machine() -> None:
    node, speed = cores_of(Sysfs(Path("/")), {0})
    assert (node is None or node >= 0) and 0 < speed <= 1
