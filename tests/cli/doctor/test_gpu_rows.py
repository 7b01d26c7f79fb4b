"""Rows of `ringtree doctor` about GPUs, from trees of hosts that have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringtree.cli.doctor import gpudirect, gpus
from ringtree.cli.doctor.check import Check, CheckedHost
from ringtree.cli.doctor.gpus import newer_bindings
from tests.machines.sysfs_trees import H100, SysTree, gpu_server
from tests.machines.test_gpudirect import CLOSED, OPEN
from tests.machines.test_peer_access import two


def rows(check: object, root: Path, **env: str) -> dict[str, Check]:
    return {row.name: row for row in check(CheckedHost(root, env))}  # type: ignore[operator]


def server(root: Path, driver: str = OPEN, release: str = "6.8.0") -> SysTree:
    tree = gpu_server(root)
    tree.write("sys/module/nvidia/version", "580.159.03" if driver == OPEN else "535.104.05")
    tree.write("proc/driver/nvidia/version", driver)
    tree.write("proc/sys/kernel/osrelease", release)
    return tree


def test_processes_that_share_a_gpu_need_mps(tmp_path: Path) -> None:
    tree = server(tmp_path)
    found = rows(gpus.gpus, tmp_path)["mps"]
    assert found.state.value == "note" and "turns of about 2 ms" in found.found
    assert found.remedies == ("nvidia-cuda-mps-control -d",)
    tree.write("proc/99/comm", "nvidia-cuda-mps")
    assert rows(gpus.gpus, tmp_path)["mps"].state.value == "ok"
    (tree.root / "proc/99/comm").unlink()
    tree.write("run/pipes/control", "")
    pipes = {"CUDA_MPS_PIPE_DIRECTORY": "/run/pipes"}
    assert rows(gpus.gpus, tmp_path, **pipes)["mps"].state.value == "note"  # of a daemon that was killed
    tree.write(".dockerenv", "")
    found = rows(gpus.gpus, tmp_path, **pipes)["mps"]
    assert found.state.value == "ok" and "not seen from this container" in found.found


def test_pairs_of_one_answer_share_a_row(tmp_path: Path) -> None:
    server(tmp_path / "server")
    found = rows(gpus.gpus, tmp_path / "server")["peers"]
    assert found.state.value == "ok" and "gpu0-gpu1, gpu0-gpu2, gpu0-gpu3 and 25 more" in found.found
    two(tmp_path / "far", roots=("10", "50"))
    found = rows(gpus.gpus, tmp_path / "far")["peers"]
    assert found.state.value == "note" and "different root complexes" in found.found
    assert found.figures["allowed"] is None


def test_versions_of_what_programs_on_gpus_use(tmp_path: Path) -> None:
    server(tmp_path)
    found = rows(gpus.gpus, tmp_path)["cuda"]
    assert "driver 580.159.03" in found.found
    assert set(found.figures) == {"driver", "cuda", "cuda-bindings", "cuda-core", "NVRTC", "NCCL"}


@pytest.mark.parametrize(
    ("bindings", "cuda", "newer"),
    [("13.3.1", "12.4", "13"), ("13.3.1", "13.0", ""), ("12.9", "13.0", ""), ("", "", "")],
)
def test_bindings_that_are_newer_than_the_driver(bindings: str, cuda: str, newer: str) -> None:
    assert newer_bindings(bindings, cuda) == newer


def test_a_container_that_lacks_something(tmp_path: Path) -> None:
    tree = server(tmp_path)
    assert "container" not in rows(gpus.gpus, tmp_path)
    tree.write(".dockerenv", "")
    tree.write("proc/self/status", "CapEff:\t00000000a80425fb")
    tree.write("proc/self/mounts", "overlay / overlay rw 0 0")
    found = rows(gpus.gpus, tmp_path)["container"]
    assert found.state.value == "note" and "SYS_PTRACE" in found.found and "/dev/shm is not mounted" in found.found
    assert {"docker run --shm-size 8g", "docker run --cap-add SYS_PTRACE", "docker run --ipc host"} == {*found.remedies}


@pytest.mark.parametrize(
    ("driver", "module", "state", "words", "remedy"),
    [
        (OPEN, "", "ok", "dma-buf, by driver and kernel; nvidia_peermem is not loaded and not needed", ""),
        (CLOSED, "nvidia_peermem", "ok", "nvidia_peermem is loaded; no dma-buf: the driver's modules are not", ""),
        (CLOSED, "", "note", "network cards cannot access GPU memory", "modprobe nvidia_peermem"),
    ],
)
def test_whether_network_cards_reach_gpu_memory(
    tmp_path: Path, driver: str, module: str, state: str, words: str, remedy: str
) -> None:
    tree = server(tmp_path, driver)
    if module:
        tree.write(f"sys/module/{module}/refcnt", 0)
    found = rows(gpudirect.gpu_direct, tmp_path)
    assert found["memory"].state.value == state and words in found["memory"].found
    assert remedy in " ".join(found["memory"].remedies)
    assert found["rdma"].state.value == state and "the wire ucx stages through host memory" in found["rdma"].found
    assert "gpu0-mlx5_0" in found["distance"].found and found["distance"].found.endswith(": PIX")


def test_gpus_far_from_cards_and_without_any(tmp_path: Path) -> None:
    tree = two(tmp_path / "far", H100)
    path = tree.pci("80/0000:80:01.0", (0x020700, 0x15B3, 0x1021), numa=1)
    tree.rdma(path, "mlx5_0", "400 Gb/sec (4X NDR)", "InfiniBand")
    found = rows(gpudirect.gpu_direct, tmp_path / "far")["distance"]
    assert found.state.value == "note" and "SYS" in found.found and "slows GPUDirect RDMA down" in found.found
    two(tmp_path / "none")
    without = rows(gpudirect.gpu_direct, tmp_path / "none")
    assert "no RDMA device is up" in without["rdma"].found and "distance" not in without
    assert rows(gpudirect.gpu_direct, tmp_path / "empty") == {}


@pytest.mark.parametrize(
    ("driver", "files", "state", "words"),
    [
        (OPEN, [], "ok", "no libcufile.so"),
        (CLOSED, ["usr/lib64/libcufile.so.0"], "note", "compatibility mode, by the host's memory"),
        (OPEN, ["usr/lib64/libcufile.so.0"], "ok", "P2PDMA mode on NVMe drives"),
        (CLOSED, ["usr/lib64/libcufile.so.0", "sys/module/nvidia_fs/refcnt"], "ok", "nvidia_fs is loaded"),
    ],
)
def test_storage(tmp_path: Path, driver: str, files: list[str], state: str, words: str) -> None:
    tree = server(tmp_path, driver)
    for file in files:
        tree.write(file, "")
    found = rows(gpudirect.gpu_direct, tmp_path)["storage"]
    assert found.state.value == state and words in found.found and found.figures["drives"] == ["nvme0"]


def test_ucx_with_transports_for_gpu_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server(tmp_path)
    library = tmp_path / "ucx-wheel/lib/libucp.so.0"
    library.parent.mkdir(parents=True)
    library.write_text("")
    monkeypatch.setenv("RINGTREE_UCX_LIBRARY", str(library))
    found = rows(gpudirect.gpu_direct, tmp_path)["ucx"]
    assert found.state.value == "note" and found.remedies == ("pip install libucx-cu12",)
    (library.parent / "ucx").mkdir()
    (library.parent / "ucx/libuct_cuda.so.0").write_text("")
    found = rows(gpudirect.gpu_direct, tmp_path)["ucx"]
    assert found.state.value == "ok" and "libuct_cuda.so.0" in found.found
