"""GPUDirect RDMA and Storage: whether network cards and drives reach a GPU's memory, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from ringtree.cli.doctor.check import Check, CheckedHost, State
from ringtree.machines.detect import detect
from ringtree.machines.host.gpudirect import CUDA_TRANSPORTS, CUFILE, GpuDirect, found_library, gpudirect
from ringtree.machines.host.modules import GDRCOPY, loaded
from ringtree.machines.host.rdma import rdma_ports
from ringtree.machines.machine import DeviceKind, Machine, PathKind
from ringtree.machines.paths import Paths
from ringtree.machines.sysfs import Sysfs
from ringtree.runtime.engines.wires.ucx import library

SECTION = "gpudirect"
STAGES = "the wire ucx stages through host memory"
FAR = (PathKind.PHB, PathKind.SYS)


def gpu_direct(host: CheckedHost) -> Iterator[Check]:
    """Rows where NVIDIA's GPUs are; none elsewhere."""
    machine = detect(host.root)
    if not any(machine.devices[n].vendor == "nvidia" for n in machine.gpus):
        return
    pieces = gpudirect(host.sysfs)
    yield _memory(pieces)
    yield _network(host.sysfs, machine, pieces)
    yield from _distances(machine)
    yield _transports(host.sysfs)
    if found := loaded(host.sysfs, GDRCOPY):
        yield Check(SECTION, "gdrdrv", State.OK, f"{found} is loaded")
    else:
        words = "not loaded: UCX and NVSHMEM copy short messages faster with it (GDRCopy)"
        yield Check(SECTION, "gdrdrv", State.NOTE, words, ("modprobe gdrdrv",))
    yield _storage(host.sysfs, machine, pieces)


def _memory(pieces: GpuDirect) -> Check:
    """Whether the kernel lets other devices access a GPU's memory: by a module, or dma-buf."""
    reasons = pieces.without_dma_buf
    figures = {
        "peer_memory": pieces.peer_memory or None,
        "driver": list(pieces.driver),
        "linux": list(pieces.linux),
        "open_driver": pieces.open_driver,
        "without_dma_buf": list(reasons),
    }
    by_buffer = f"no dma-buf: {'; '.join(reasons)}" if reasons else "dma-buf, by driver and kernel"
    if pieces.peer_memory:
        return Check(SECTION, "memory", State.OK, f"{pieces.peer_memory} is loaded; {by_buffer}", (), figures)
    if not reasons:
        return Check(
            SECTION, "memory", State.OK, f"{by_buffer}; nvidia_peermem is not loaded and not needed", (), figures
        )
    words = f"network cards cannot access GPU memory: nvidia_peermem is not loaded; {by_buffer}"
    return Check(SECTION, "memory", State.NOTE, words, ("modprobe nvidia_peermem", *_driver_remedy(reasons)), figures)


def _driver_remedy(reasons: tuple[str, ...]) -> tuple[str, ...]:
    return (
        ("install NVIDIA's driver with open kernel modules, 515 or newer",)
        if any("driver" in r for r in reasons)
        else ()
    )


def _network(sysfs: Sysfs, machine: Machine, pieces: GpuDirect) -> Check:
    """Whether data of GPUs goes to the network without the host's memory."""
    up = [port.name for port in rdma_ports(sysfs) if port.up]
    figures = {"ports": up, "possible": bool(up) and (bool(pieces.peer_memory) or not pieces.without_dma_buf)}
    if not up:
        words = f"no RDMA device is up: data of GPUs goes to the network by the host's memory; {STAGES}"
        return Check(SECTION, "rdma", State.OK, words, (), figures)
    words = f"{', '.join(up[:4])}{' and more' if len(up) > 4 else ''}: "
    if not figures["possible"]:
        words += f"they do not reach GPU memory (row memory): {STAGES}"
        return Check(SECTION, "rdma", State.NOTE, words, (), figures)
    words += f"NCCL, UCX and NVSHMEM can use GPUDirect RDMA over them; today {STAGES} all the same"
    return Check(SECTION, "rdma", State.OK, words, (), figures)


def _distances(machine: Machine) -> Iterator[Check]:
    """The kind of path from each GPU to its nearest RDMA device, GPUs of one kind in a row."""
    paths = Paths(machine)
    cards = [n for n in machine.nics if machine.devices[n].attributes.get("rdma")]
    found: dict[PathKind, list[str]] = {}
    for gpu in machine.gpus if cards else ():
        nearest = min(cards, key=lambda card: paths.between(gpu, card).kind)
        kind = paths.between(gpu, nearest).kind
        found.setdefault(kind, []).append(f"{machine.devices[gpu].name}-{machine.devices[nearest].name}")
    for kind, pairs in found.items():
        few = ", ".join(pairs[:4]) + (f" and {len(pairs) - 4} more" if len(pairs) > 4 else "")
        figures = {"kind": kind.name, "pairs": pairs}
        if kind in FAR:
            words = f"{few}: {kind.name}, through a CPU, which slows GPUDirect RDMA down; NCCL does without it there"
            yield Check(SECTION, "distance", State.NOTE, words, ("move card or GPU below one PCIe switch",), figures)
        else:
            yield Check(SECTION, "distance", State.OK, f"{few}: {kind.name}", (), figures)


def _transports(sysfs: Sysfs) -> Check:
    """UCX's transports for GPU memory, beside the libucp that the wire would load."""
    at = Path(library())
    beside = sorted(at.parent.glob(f"ucx/{CUDA_TRANSPORTS}*")) if at.is_absolute() else []
    there = str(beside[0]) if beside else "" if at.is_absolute() else found_library(sysfs, CUDA_TRANSPORTS, "ucx")
    figures = {"cuda_transports": there or None}
    if there:
        return Check(
            SECTION, "ucx", State.OK, f"its transports for GPU memory are here, {there}; {STAGES}", (), figures
        )
    words = f"no {CUDA_TRANSPORTS} beside {at}: this UCX would not know GPU memory; {STAGES}"
    return Check(SECTION, "ucx", State.NOTE, words, ("pip install libucx-cu12",), figures)


def _storage(sysfs: Sysfs, machine: Machine, pieces: GpuDirect) -> Check:
    """GPUDirect Storage: the module, the library, and what cuFile does without the module."""
    cufile = _cufile(sysfs)
    drives = [machine.devices[n].name for n in machine.of_kind(DeviceKind.STORAGE)]
    figures = {"nvidia_fs": bool(pieces.nvidia_fs), "p2pdma": pieces.p2pdma, "cufile": cufile or None, "drives": drives}
    if not cufile:
        words = f"no {CUFILE}: reads into GPUs go by the host's memory"
        return Check(SECTION, "storage", State.OK, words, ("pip install nvidia-cufile",), figures)
    if pieces.nvidia_fs:
        return Check(SECTION, "storage", State.OK, f"{pieces.nvidia_fs} is loaded, {cufile}", (), figures)
    if pieces.p2pdma:
        words = (
            "nvidia_fs is not loaded; driver and kernel are new enough for cuFile's P2PDMA mode on NVMe drives, whose "
        )
        words += f"settings are not looked at; other reads are in compatibility mode, by the host's memory; {cufile}"
        return Check(SECTION, "storage", State.OK, words, (), figures)
    words = f"nvidia_fs is not loaded: cuFile works in compatibility mode, by the host's memory; {cufile}"
    return Check(SECTION, "storage", State.NOTE, words, ("modprobe nvidia_fs", "apt-get install nvidia-fs"), figures)


def _cufile(sysfs: Sysfs) -> str:
    """The library's path, of Python's package or of the system."""
    for package in ("nvidia.cu13", "nvidia.cufile"):
        try:
            spec = find_spec(package)
        except (ImportError, ValueError):
            continue
        for folder in (spec and spec.submodule_search_locations) or []:
            if there := sorted(Path(folder).glob(f"lib/{CUFILE}*")):
                return str(there[0])
    return found_library(sysfs, CUFILE)
