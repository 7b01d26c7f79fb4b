"""Rows of `ringtree doctor`, each from a host that has the fault."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ringtree.bench import tuned_text
from ringtree.cli.doctor import gpudirect, gpus, network, resources, settings, software, this_host, wires
from ringtree.cli.doctor.check import Check, CheckedHost, CheckFunction, State, checked
from ringtree.machines.host.interfaces import NetworkInterface
from ringtree.price import BUILT_IN, NetworkCost
from ringtree.runtime import settings as names
from ringtree.runtime import tuned
from tests.machines.sysfs_trees import CX7, H100, SysTree

ROOT = Path(__file__).parents[3]


def limits(files: str = "65536", locked: str = "unlimited", most: str = "unlimited", processes: str = "9000") -> str:
    rows = (("Max open files", files, files), ("Max locked memory", locked, most), ("Max processes", processes, "9000"))
    return "\n".join(f"{name:<26}{soft:<21}{hard:<21}units" for name, soft, hard in rows)


def meminfo(total_kib: int = 1 << 24, available_kib: int = 1 << 23) -> str:
    return f"MemTotal:  {total_kib} kB\nMemAvailable:  {available_kib} kB"


def card(tree: SysTree, *, up: bool = True) -> None:
    path = tree.pci("00/0000:00:01.0", CX7)
    tree.rdma(path, "mlx5_0", "200 Gb/sec (4X HDR)", "Ethernet", state="4: ACTIVE" if up else "1: DOWN")


def gpu(tree: SysTree) -> None:
    tree.pci("00/0000:00:02.0", H100)


def driver(tree: SysTree) -> None:
    gpu(tree)
    tree.write("sys/module/nvidia/version", "570.86.15")
    tree.write("sys/module/nvidia_peermem/refcnt", 0)


CASES: list[tuple[str, CheckFunction, dict[str, str], Callable[[SysTree], None] | None, str, str, str, str]] = [
    # what, check, files, more of the tree; and of the expected row: name, state, words, a remedy
    ("no quota", resources.cores, {}, None, "cores", "ok", "usable", ""),
    ("a quota", resources.cores, {"sys/fs/cgroup/cpu.max": "50000 100000"}, None, "cores", "note",
     "allows 0.5 of them", "docker run --cpus"),
    ("a load", resources.load, {"proc/loadavg": "0.02 0.5 0.7 1/100 7"}, None, "load", "ok", "0.02 on", ""),
    ("a busy host", resources.load, {"proc/loadavg": "99999.5 1 1 1/1 1"}, None, "load", "note", "keep the cores busy",
     "ps -eo pcpu"),
    ("no load", resources.load, {"proc/loadavg": "some"}, None, "load", "note", "/proc/loadavg cannot be read", ""),
    ("memory", resources.memory, {"proc/meminfo": meminfo()}, None, "memory", "ok", "8 GiB of 16 GiB available", ""),
    ("no memory file", resources.memory, {}, None, "memory", "note", "/proc/meminfo cannot be read", ""),
    ("little memory", resources.memory, {"proc/meminfo": meminfo(available_kib=1 << 10)}, None, "memory", "problem",
     "1 MiB of 16 GiB", ""),
    ("a memory limit", resources.memory,
     {"proc/meminfo": meminfo(), "sys/fs/cgroup/memory.max": str(1 << 30), "sys/fs/cgroup/memory.current": "536870912"},
     None, "memory", "note", "512 MiB available of the 1 GiB that a control group allows", "docker run --memory 8g"),
    ("a memory limit, cache", resources.memory,
     {"proc/meminfo": meminfo(), "sys/fs/cgroup/memory.max": str(8 << 30), "sys/fs/cgroup/memory.current": str(8 << 30),
      "sys/fs/cgroup/memory.stat": f"anon 1\ninactive_file {7 << 30}\n"},
     None, "memory", "ok", "7 GiB available of the 8 GiB that a control group allows", ""),
    ("no /dev/shm", resources.shared_memory, {}, None, "/dev/shm", "note", "No such file", "mount -t tmpfs"),
    ("no limits file", resources.limits, {}, None, "descriptors", "note", "/proc/self/limits cannot be read", ""),
    ("limits", resources.limits, {"proc/self/limits": limits()}, None, "descriptors", "ok", "65,536", ""),
    ("few descriptors", resources.limits, {"proc/self/limits": limits("256")}, None, "descriptors", "note", "256",
     "docker run --ulimit nofile=65536:65536"),
    ("little locked", resources.limits, {"proc/self/limits": limits(locked="65536")}, None, "locked memory", "ok",
     "64 KiB (ulimit -l); only RDMA needs more", ""),
    ("little locked, RDMA", resources.limits, {"proc/self/limits": limits(locked="65536")}, card, "locked memory",
     "note", "64 KiB", "ulimit -l unlimited"),
    ("locked for good", resources.limits, {"proc/self/limits": limits(locked="65536", most="65536")}, card,
     "locked memory", "note", "64 KiB", "docker run --ulimit memlock=-1:-1"),
    ("few processes", resources.limits, {"proc/self/limits": limits(processes="64")}, None, "processes", "note",
     "64 (ulimit -u)", "ulimit -u 4096"),
    ("few processes, group", resources.limits, {"proc/self/limits": limits(), "sys/fs/cgroup/pids.max": "100"}, None,
     "processes", "note", "100 (of the control group)", "docker run --pids-limit -1"),
    ("no RDMA", wires.rdma, {}, None, "rdma", "ok", "no RDMA device", ""),
    ("RDMA", wires.rdma, {}, card, "mlx5_0", "ok", "RoCE, up, 200 Gb/s", ""),
    ("RDMA down", wires.rdma, {}, lambda tree: card(tree, up=False), "mlx5_0", "note", "RoCE, down", ""),
    ("RDMA unused", wires.rdma, {"dev/infiniband/uverbs0": ""}, card, "rdma", "note", "over TCP",
     "export RINGTREE_WIRE=ucx"),
    ("no verbs", wires.rdma, {}, card, "verbs", "note", "no /dev/infiniband/uverbs", "--device /dev/infiniband"),
    ("no GPU", gpus.gpus, {}, None, "gpus", "ok", "none", ""),
    ("a GPU", gpus.gpus, {}, gpu, "gpus", "ok", "H100", ""),
    ("no driver", gpus.gpus, {}, gpu, "driver", "note", "not loaded", "modprobe nvidia"),
    ("no nvidia-smi", gpus.gpus, {}, driver, "driver", "note", "570.86.15, without nvidia-smi", "--gpus all"),
    ("peer memory", gpudirect.gpu_direct, {}, driver, "memory", "ok", "nvidia_peermem is loaded", ""),
    ("no gdrcopy", gpudirect.gpu_direct, {}, driver, "gdrdrv", "note", "not loaded", "modprobe gdrdrv"),
]  # fmt: skip


def row(rows: list[Check], name: str) -> Check:
    return next(one for one in rows if one.name == name)


@pytest.mark.parametrize(
    ("check", "files", "more", "name", "state", "words", "remedy"),
    [pytest.param(*case[1:], id=case[0]) for case in CASES],
)
def test_a_row(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    check: CheckFunction,
    files: Mapping[str, str],
    more: Callable[[SysTree], None] | None,
    name: str,
    state: str,
    words: str,
    remedy: str,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no program of this host
    tree = SysTree(tmp_path)
    tree.write("proc/self/cgroup", "0::/")
    for file, text in files.items():
        tree.write(file, text)
    if more:
        more(tree)
    found = row(list(check(CheckedHost(tmp_path, {}))), name)
    assert found.state.value == state and words in found.found
    assert remedy in " | ".join(found.remedies) and bool(found.remedies) == bool(remedy)


def test_a_check_that_fails_is_a_row() -> None:
    def broken(host: CheckedHost) -> list[Check]:
        raise PermissionError(13, "Permission denied", "/proc/of/others")

    (found,) = checked(CheckedHost(), "resources", "cores", broken)
    assert (found.section, found.name, found.state) == ("resources", "cores", State.NOTE)
    assert "PermissionError" in found.found and "/proc/of/others" in found.found


def test_an_empty_host_has_a_row_for_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing below /sys and /proc, and no program."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(this_host, "CHECKS", [c for c in this_host.CHECKS if c[1] != "torch"])
    rows = this_host.check_host(CheckedHost(tmp_path, {"HOME": str(tmp_path)}))
    assert not [one for one in rows if "could not be checked" in one.found]
    assert {one.section for one in rows} == {
        "software", "resources", "network", "wires", "launchers", "gpus", "settings",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("env", "name", "state", "words", "remedy"),
    [
        ({}, "variables", "ok", "no RINGTREE_* is set", ""),
        ({"RINGTREE_WIRE": "tcp"}, "RINGTREE_WIRE", "ok", "'tcp'", ""),
        ({"RINGTREE_WIRE": "rdma"}, "RINGTREE_WIRE", "problem", "expected one of tcp, ucx", "unset RINGTREE_WIRE"),
        ({"RINGTREE_ADRESS": "a:1"}, "RINGTREE_ADRESS", "note", "is it RINGTREE_ADDRESS?",
         'export RINGTREE_ADDRESS="$RINGTREE_ADRESS"; unset RINGTREE_ADRESS'),
        ({"RINGTREE_TIMEOUTS": "9"}, "RINGTREE_TIMEOUTS", "note", "is it RINGTREE_TIMEOUT?", "RINGTREE_TIMEOUT"),
        ({"RINGTREE_COLOUR_OF_THE_SKY": "1"}, "RINGTREE_COLOUR_OF_THE_SKY", "note", "nothing reads it", "unset"),
        ({"RINGTREE_ADDRESS": "10.0.0.1"}, "RINGTREE_ADDRESS", "problem", "expected host:port", "unset"),
        ({"RINGTREE_ADDRESS": "10.0.0.1:29400"}, "RINGTREE_SECRET", "note", "may join", "openssl rand"),
        ({"RINGTREE_INTERFACE": "eth99"}, "RINGTREE_INTERFACE", "problem", "expected an interface", "unset"),
        ({"RINGTREE_SECRET": "hush"}, "RINGTREE_SECRET", "ok", "set", ""),
    ],
)  # fmt: skip
def test_variables(env: dict[str, str], name: str, state: str, words: str, remedy: str) -> None:
    found = row(list(settings.variables(CheckedHost(Path("/"), env))), name)
    assert found.state.value == state and words in found.found and remedy in " ".join(found.remedies)
    assert "hush" not in str(found.as_json())


def test_every_variable_of_the_code_is_known() -> None:
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "csrc").rglob("*.cc"), *(ROOT / "csrc").rglob("*.h")]
    named = {name for path in sources for name in re.findall(r'"RINGTREE_([A-Z0-9_]+)"', path.read_text())}
    assert named <= {*names.NAMES, *names.OF_DEVELOPMENT}
    assert {*names.NAMES} <= named


@pytest.mark.parametrize(
    ("change", "state", "words"),
    [
        ("", "ok", "between hosts 1 ms and 250 MB/s"),
        ('"ringtree": "0.0.1"', "note", "stale"),
        ('"cores": 12345', "note", "of another machine"),
        ("broken", "note", "not JSON"),
        ("missing", "note", "never run here"),
    ],
)
def test_the_file_of_tune(tmp_path: Path, change: str, state: str, words: str) -> None:
    path = tmp_path / "machine.json"
    text = tuned_text.text(BUILT_IN, (2,), "a Sunday", NetworkCost(1e-3, 250e6, "measured on a Sunday"))
    if change.startswith('"'):
        key = change.split(":")[0]
        text, changed = re.subn(f"{key}: [^,}}\n]+", change, text)
        assert changed
    if change != "missing":
        path.write_text("{" if change == "broken" else text)
    (found,) = settings.tune(CheckedHost(Path("/"), {tuned.VARIABLE: str(path)}))
    assert found.state.value == state and words in found.found
    assert found.remedies == (() if state == "ok" else ("ringtree tune",))


def interface(name: str, rate_Bps: float = 0.0, kind: str = "device", up: bool = True) -> NetworkInterface:
    return NetworkInterface(name, up, rate_Bps, 1500, kind)


@pytest.mark.parametrize(
    ("used", "others", "expected"),
    [
        (interface("eth0", 1e9), [interface("eth1", 1e10)], "eth1"),
        (interface("eth0", 1e9), [interface("eth1", 1.2e9)], ""),  # little more
        (interface("eth0", 1e9), [interface("eth1", 1e10, up=False)], ""),
        (interface("eth0", 1e9), [interface("tun0", 1e10, "tunnel")], ""),
        (interface("eth0", 1e9), [interface("eth2", 1e10)], ""),  # without an address
        (interface("eth0"), [interface("eth1", 1e10)], ""),  # of unknown rate itself
        (interface("eth0", 1e9, "virtual"), [interface("eth1", 1e10)], ""),  # a container's own
        (interface("docker0", 0, "bridge"), [interface("eth0"), interface("eth1", 1e9)], "eth1"),
        (interface("docker0", 0, "bridge"), [interface("eth0", 0, "virtual")], "eth0"),
        (interface("docker0", 0, "bridge"), [interface("br-1", 0, "bridge"), interface("lo", 0, "loopback")], ""),
        (interface("lo", 0, "loopback"), [interface("eth0")], "eth0"),
    ],
)
def test_a_better_interface(used: NetworkInterface, others: list[NetworkInterface], expected: str) -> None:
    there = {one.name: one for one in (used, *others)}
    addresses = {name: ["10.0.0.1"] for name in there if name != "eth2"}
    assert network.better_interface(used.name, there, addresses) == expected


@pytest.mark.parametrize(
    ("env", "state", "words"),
    [
        ({"RINGTREE_ADDRESS": "127.0.0.1:29400"}, "ok", "which only ranks of this host reach"),
        ({"RINGTREE_ADDRESS": "nowhere.invalid:29400"}, "problem", "names nowhere.invalid, which has no address here"),
        ({"RINGTREE_INTERFACE": "eth77"}, "note", "unknown: RINGTREE_INTERFACE is 'eth77'"),
        ({"RINGTREE_INTERFACE": "lo"}, "note", "RINGTREE_INTERFACE names it; no other host reaches it"),
        ({"RINGTREE_INTERFACE": "lo", "RINGTREE_ADDRESS": "192.0.2.9:1"}, "problem", "no other host reaches it"),
    ],
)
def test_the_chosen_interface(env: dict[str, str], state: str, words: str) -> None:
    (found,) = network.chosen(CheckedHost(Path("/"), env))
    assert words in found.found and found.state.value == state


@pytest.mark.parametrize(
    ("prints", "words"),
    [
        ("echo 'mpirun (Open MPI) 5.0.6'; echo; echo 'Report bugs to'", "Open MPI 5.0.6"),
        ("echo 'HYDRA build details:'; echo '    Version:                4.2.1'", "MPICH 4.2.1"),
        ("echo 'Intel(R) MPI Library for Linux, Version 2021.13'", "Intel(R) MPI Library for Linux, Version 2021.13"),
        ("echo 'no such option'; exit 3", "it ended with code 3: no such option"),
    ],
)
def test_launchers_are_asked_for_their_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prints: str, words: str
) -> None:
    program = tmp_path / "mpirun"
    program.write_text(f"#!/bin/sh\n{prints}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    rows = list(software.launchers(CheckedHost()))
    assert words in row(rows, "mpirun").found and "srun" in row(rows, "not here").found
    assert row(rows, "not here").state is State.OK


def test_a_ucx_that_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "libucp.so.0"
    path.write_text("no library")
    monkeypatch.setenv("RINGTREE_UCX_LIBRARY", str(path))
    for wire, state in (("tcp", State.OK), ("ucx", State.PROBLEM)):
        env = {"RINGTREE_WIRE": wire, "RINGTREE_UCX_LIBRARY": str(path)}
        (found,) = wires.ucx(CheckedHost(Path("/"), env))
        assert found.state is state and str(path) in found.found and found.remedies == ("unset RINGTREE_UCX_LIBRARY",)
