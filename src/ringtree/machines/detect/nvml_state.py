"""The state of NVIDIA's GPUs at a moment, as NVML reports it: PCIe link, NVLinks, clocks, MIG, access to peers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ringtree.machines.detect.nvml import MISSING, MOST_NVLINKS, short_busid, text_of

ALLOWED = "allowed"
"""The driver's answer for a pair of GPUs of which each may read the other."""
PEER_ANSWERS = ("", "chipset", "gpu", "root complexes", "registry key", "unsupported", "unknown")
"""The driver's answers by NVML's number of the status; 0 is ALLOWED."""
SLOWED = {
    0x4: "its power limit",
    0x8: "the hardware's slowdown",
    0x10: "clocks that are kept equal with other GPUs (sync boost)",
    0x20: "the driver's temperature limit",
    0x40: "the hardware's temperature limit",
    0x80: "the power supply (power brake)",
}
"""Reasons for lower clocks, by NVML's bits; idle clocks and those that a user has set are none."""


@dataclass(frozen=True, slots=True)
class GpuState:
    """PCIe figures are 0 where unknown: the link's generation and lanes now, the most that GPU and slot have together,
    and the GPU's own most generation. `slowed` in words. `peers`: the driver's answer about each other GPU by busid."""

    busid: str
    name: str = ""
    generation: int = 0
    width: int = 0
    most_generation: int = 0
    gpu_generation: int = 0
    most_width: int = 0
    slowed: tuple[str, ...] = ()
    nvlinks_up: int = 0
    nvlinks_down: int = 0
    mig: bool = False
    peers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class NvmlReport:
    """All GPUs that this process may use, and the versions of the driver and of CUDA that it brings ("13.0")."""

    gpus: tuple[GpuState, ...] = ()
    driver: str = ""
    cuda: str = ""


def gpu_states() -> tuple[NvmlReport, str]:
    """(NVML's report, "" or, in one line, why there is none). Cost: some milliseconds, more where no process holds the
    driver."""
    try:
        import pynvml
    except ImportError:
        return NvmlReport(), MISSING
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return NvmlReport(), f"NVML does not answer ({error}): is the NVIDIA driver in this container?"
    try:
        return _report(pynvml), ""
    except pynvml.NVMLError as error:
        return NvmlReport(), f"NVML does not report the GPUs ({error})"
    finally:
        pynvml.nvmlShutdown()


def _report(nvml: Any) -> NvmlReport:
    handles = [nvml.nvmlDeviceGetHandleByIndex(n) for n in range(nvml.nvmlDeviceGetCount())]
    buses = [short_busid(nvml.nvmlDeviceGetPciInfo(handle).busId) for handle in handles]
    version = _asked(nvml, 0, "nvmlSystemGetCudaDriverVersion_v2")
    cuda = f"{version // 1000}.{version % 1000 // 10}" if version else ""
    gpus = tuple(
        _state(nvml, handle, busid, [(b, h) for b, h in zip(buses, handles, strict=True) if b != busid])
        for handle, busid in zip(handles, buses, strict=True)
    )
    return NvmlReport(gpus, text_of(_asked(nvml, "", "nvmlSystemGetDriverVersion")), cuda)


def _state(nvml: Any, handle: Any, busid: str, others: list[tuple[str, Any]]) -> GpuState:
    reasons = _asked(nvml, 0, "nvmlDeviceGetCurrentClocksEventReasons", handle)
    links = [_asked(nvml, -1, "nvmlDeviceGetNvLinkState", handle, n) for n in range(MOST_NVLINKS)]
    mig = _asked(nvml, (0, 0), "nvmlDeviceGetMigMode", handle)
    read = getattr(nvml, "NVML_P2P_CAPS_INDEX_READ", 0)
    peers = {other: _asked(nvml, -1, "nvmlDeviceGetP2PStatus", handle, there, read) for other, there in others}
    return GpuState(
        busid,
        text_of(_asked(nvml, "", "nvmlDeviceGetName", handle)),
        _asked(nvml, 0, "nvmlDeviceGetCurrPcieLinkGeneration", handle),
        _asked(nvml, 0, "nvmlDeviceGetCurrPcieLinkWidth", handle),
        _asked(nvml, 0, "nvmlDeviceGetMaxPcieLinkGeneration", handle),
        _asked(nvml, 0, "nvmlDeviceGetGpuMaxPcieLinkGeneration", handle),
        _asked(nvml, 0, "nvmlDeviceGetMaxPcieLinkWidth", handle),
        tuple(words for bit, words in SLOWED.items() if reasons & bit),
        links.count(1),
        links.count(0),
        bool(mig[0]),
        {other: peer_answer(status) for other, status in peers.items()},
    )


def peer_answer(status: int) -> str:
    """The driver's answer by NVML's number."""
    return (ALLOWED, *PEER_ANSWERS[1:])[status] if 0 <= status < len(PEER_ANSWERS) else "unknown"


def _asked(nvml: Any, otherwise: Any, name: str, *arguments: Any) -> Any:
    """NVML's answer; `otherwise` where this driver, GPU or package has none."""
    function: Callable[..., Any] | None = getattr(nvml, name, None)
    if function is None:
        return otherwise
    try:
        return function(*arguments)
    except nvml.NVMLError:
        return otherwise
