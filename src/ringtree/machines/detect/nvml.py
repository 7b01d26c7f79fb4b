"""NVIDIA's GPUs as their driver reports them, through NVML (the package nvidia-ml-py, the extra `gpu`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

INSTALL = "pip install nvidia-ml-py"
MISSING = f"NVML's Python package, nvidia-ml-py, is not installed: {INSTALL} makes NVLinks and models known"
MOST_NVLINKS = 36
SWITCH, CPU = 2, 1
"""NVML's number of the kind of device at the other end of an NVLink; a GPU is 0."""


@dataclass(frozen=True, slots=True)
class NvmlGpu:
    """`sm` is the compute capability times 10. `nvlinks`: the number of active links to each (kind, busid): kind
    "nvswitch", "gpu" or "cpu". `model`: the PCI device id, 0 where unknown."""

    index: int
    busid: str
    name: str
    sm: int
    nvlinks: Mapping[tuple[str, str], int]
    model: int = 0


def nvml_gpus() -> tuple[tuple[NvmlGpu, ...], str]:
    """(the GPUs that this process may use, in NVML's order; "" or, in one line, why none are known)."""
    try:
        import pynvml
    except ImportError:
        return (), MISSING
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return (), f"NVML does not answer ({error}): is the NVIDIA driver in this container?"
    try:
        return tuple(_gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())), ""
    except pynvml.NVMLError as error:
        return (), f"NVML does not report the GPUs ({error})"
    finally:
        pynvml.nvmlShutdown()


def _gpu(nvml: Any, index: int) -> NvmlGpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    pci = nvml.nvmlDeviceGetPciInfo(handle)
    name, model = text_of(nvml.nvmlDeviceGetName(handle)), int(pci.pciDeviceId) >> 16
    return NvmlGpu(index, short_busid(pci.busId), name, 10 * major + minor, _nvlinks(nvml, handle), model)


def _nvlinks(nvml: Any, handle: Any) -> Mapping[tuple[str, str], int]:
    found: Counter[tuple[str, str]] = Counter()
    for n in range(MOST_NVLINKS):
        try:
            if not nvml.nvmlDeviceGetNvLinkState(handle, n):
                continue
            kind = _end(nvml, handle, n)
            found[kind, short_busid(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, n).busId)] += 1
        except nvml.NVMLError:  # this one is not there, or not reported in this machine
            continue
    return dict(found)


def _end(nvml: Any, handle: Any, n: int) -> str:
    kind = int(nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, n))
    return {SWITCH: "nvswitch", CPU: "cpu"}.get(kind, "gpu")


def text_of(text: bytes | str) -> str:
    """NVML's text, which older packages return as bytes."""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def short_busid(busid: bytes | str) -> str:
    """sysfs' spelling of 00000000:1B:00.0."""
    domain, _, rest = text_of(busid).lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}" if re.fullmatch("[0-9a-f]{1,8}", domain) else f"{domain}:{rest}"
