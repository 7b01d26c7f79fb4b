"""The pieces of GPUDirect RDMA and Storage on a host: kernel modules, dma-buf, and the libraries that use them."""

from __future__ import annotations

import gzip
import io
import re
from dataclasses import dataclass

from ringtree.machines.host.modules import PEER_MEMORY, loaded
from ringtree.machines.sysfs import MOST_BYTES, Sysfs

MODULE_VERSION = "proc/driver/nvidia/version"
DMA_BUF_DRIVER, DMA_BUF_LINUX = (515,), (5, 12)
P2PDMA_DRIVER, P2PDMA_LINUX = (565,), (6, 2)
"""The versions from which on cuFile can read NVMe drives into GPUs by the kernel's own means, without nvidia-fs."""
CONFIGURED = ("CONFIG_PCI_P2PDMA", "CONFIG_DMABUF_MOVE_NOTIFY")
LIBRARY_FOLDERS = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/lib",
    "usr/local/cuda/lib64",
    "usr/local/cuda/targets/x86_64-linux/lib",
    "usr/local/cuda/targets/sbsa-linux/lib",
    "opt/ucx/lib",
)
CUDA_TRANSPORTS = "libuct_cuda.so"
CUFILE = "libcufile.so"


@dataclass(frozen=True, slots=True)
class GpuDirect:
    """`driver` and `linux` are versions, () where unknown; `open_driver`: whether its modules are the open ones, None
    where unknown; `lacking`: options of the kernel's configuration that dma-buf wants and are off there. `peer_memory`,
    `nvidia_fs`: modules that are loaded, "" if not."""

    driver: tuple[int, ...] = ()
    linux: tuple[int, ...] = ()
    open_driver: bool | None = None
    peer_memory: str = ""
    lacking: tuple[str, ...] = ()
    nvidia_fs: str = ""

    @property
    def without_dma_buf(self) -> tuple[str, ...]:
        """The reasons why dma-buf does not work; none where it does, as far as the files show."""
        reasons = []
        if not self.driver:
            reasons.append("no driver of NVIDIA's is loaded")
        elif self.driver < DMA_BUF_DRIVER:
            reasons.append(f"driver {_spelled(self.driver)} is older than {_spelled(DMA_BUF_DRIVER)}")
        if self.open_driver is False:
            reasons.append("the driver's modules are not the open ones")
        if self.linux and self.linux < DMA_BUF_LINUX:
            reasons.append(f"Linux {_spelled(self.linux)} is older than {_spelled(DMA_BUF_LINUX)}")
        reasons += [f"the kernel was built without {option}" for option in self.lacking]
        return tuple(reasons)

    @property
    def p2pdma(self) -> bool:
        """Whether driver and kernel can read NVMe drives into GPUs without nvidia-fs."""
        new = self.driver >= P2PDMA_DRIVER and self.linux >= P2PDMA_LINUX
        return new and self.open_driver is True and CONFIGURED[0] not in self.lacking


def gpudirect(sysfs: Sysfs) -> GpuDirect:
    """The pieces that the kernel's files show."""
    words = sysfs.text(MODULE_VERSION)
    driver = version(sysfs.line("sys/module/nvidia/version")) or version(words.partition("Module")[2])
    peer_memory = loaded(sysfs, PEER_MEMORY)
    if not peer_memory and sysfs.folder("sys/kernel/mm/memory_peers/nv_mem"):
        peer_memory = "nv_mem"
    release = sysfs.line("proc/sys/kernel/osrelease")
    return GpuDirect(
        driver,
        version(release),
        "Open Kernel Module" in words if words else None,
        peer_memory,
        _lacking(sysfs, release),
        loaded(sysfs, ("nvidia_fs",)),
    )


def version(text: str) -> tuple[int, ...]:
    """The first version in a text: (580, 159) of "580.159"; () where there is none."""
    found = re.search(r"\d{1,6}(?:\.\d{1,6})+", text, re.ASCII)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _spelled(number: tuple[int, ...]) -> str:
    return ".".join(map(str, number))


def _lacking(sysfs: Sysfs, release: str) -> tuple[str, ...]:
    """The wanted options that the kernel's configuration has not; none where it cannot be read."""
    text = sysfs.text(f"boot/config-{release}") if release else ""
    if not text:
        text = _unpacked(sysfs.content("proc/config.gz"))
    listed = set(re.findall(r"^(CONFIG_\w+)=[ym]$", text, re.MULTILINE))
    return tuple(option for option in CONFIGURED if option not in listed) if listed else ()


def _unpacked(data: bytes) -> str:
    """The text of gzip's data, at most MOST_BYTES of it."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            return file.read(MOST_BYTES).decode("utf-8", "replace")
    except (OSError, EOFError):
        return ""


def found_library(sysfs: Sysfs, name: str, within: str = "") -> str:
    """The path of the first library below the root whose name begins so, in the folders of LIBRARY_FOLDERS or in one
    `within` each; "" where there is none."""
    for folder in LIBRARY_FOLDERS:
        at = f"{folder}/{within}" if within else folder
        if there := next((file for file in sysfs.folder(at) if file.startswith(name)), ""):
            return f"/{at}/{there}"
    return ""
