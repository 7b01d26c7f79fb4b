"""The pieces of GPUDirect, from trees of hosts that have them or lack some."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ringtree.machines.host.gpudirect import CUDA_TRANSPORTS, found_library, gpudirect, version
from ringtree.machines.sysfs import Sysfs
from tests.machines.sysfs_trees import SysTree

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release Build  (x)"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023"
CONFIG = "CONFIG_PCI_P2PDMA=y\nCONFIG_DMABUF_MOVE_NOTIFY=y\nCONFIG_OF=y\n"


def host(root: Path, driver: str = OPEN, release: str = "6.8.0-45-generic", config: str = CONFIG) -> SysTree:
    tree = SysTree(root)
    tree.write("proc/driver/nvidia/version", driver)
    tree.write("proc/sys/kernel/osrelease", release)
    if config:
        tree.write(f"boot/config-{release}", config)
    return tree


def test_an_open_driver_on_a_new_kernel_has_dma_buf(tmp_path: Path) -> None:
    host(tmp_path)
    found = gpudirect(Sysfs(tmp_path))
    assert (found.driver, found.linux, found.open_driver) == ((580, 159, 3), (6, 8, 0), True)
    assert found.without_dma_buf == () and found.p2pdma and not found.peer_memory and not found.nvidia_fs


@pytest.mark.parametrize(
    ("driver", "release", "config", "words"),
    [
        (CLOSED, "6.8.0", CONFIG, ["the driver's modules are not the open ones"]),
        (OPEN.replace("580.159.03", "470.57.02"), "6.8.0", CONFIG, ["driver 470.57.2 is older than 515"]),
        (OPEN, "5.4.0-190-generic", CONFIG, ["Linux 5.4.0 is older than 5.12"]),
        (OPEN, "6.8.0", "CONFIG_PCI_P2PDMA=y\n", ["the kernel was built without CONFIG_DMABUF_MOVE_NOTIFY"]),
        ("", "6.8.0", "", ["no driver of NVIDIA's is loaded"]),
    ],
)
def test_what_dma_buf_lacks_is_named(tmp_path: Path, driver: str, release: str, config: str, words: list[str]) -> None:
    host(tmp_path, driver, release, config)
    assert list(gpudirect(Sysfs(tmp_path)).without_dma_buf) == words


def test_the_kernels_configuration_may_be_packed_or_hidden(tmp_path: Path) -> None:
    tree = host(tmp_path, config="")
    assert gpudirect(Sysfs(tmp_path)).lacking == ()
    for data, lacking in ((gzip.compress(b"CONFIG_OF=y\n"), 2), (b"no gzip", 0), (gzip.compress(CONFIG.encode()), 0)):
        (tree.root / "proc/config.gz").write_bytes(data)
        assert len(gpudirect(Sysfs(tmp_path)).lacking) == lacking


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("sys/module/nvidia_peermem/refcnt", "nvidia_peermem"),
        ("sys/module/nv_peer_mem/refcnt", "nv_peer_mem"),
        ("sys/kernel/mm/memory_peers/nv_mem/version", "nv_mem"),
    ],
)
def test_modules_for_peers_memory(tmp_path: Path, path: str, name: str) -> None:
    host(tmp_path, CLOSED).write(path, "1")
    assert gpudirect(Sysfs(tmp_path)).peer_memory == name


def test_versions_and_libraries(tmp_path: Path) -> None:
    assert version("580.159") == (580, 159) and version("none") == ()
    tree = SysTree(tmp_path)
    assert found_library(Sysfs(tmp_path), CUDA_TRANSPORTS, "ucx") == ""
    tree.write("usr/lib64/ucx/libuct_cuda.so.0", "")
    assert found_library(Sysfs(tmp_path), CUDA_TRANSPORTS, "ucx") == "/usr/lib64/ucx/libuct_cuda.so.0"
