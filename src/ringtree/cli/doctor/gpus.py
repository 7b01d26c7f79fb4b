"""GPUs, their driver, and the kernel modules of GPUDirect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec

from ringtree.cli.doctor.check import Check, CheckedHost, State
from ringtree.cli.doctor.programs import find
from ringtree.machines.detect import detect
from ringtree.machines.detect.nvml import INSTALL
from ringtree.machines.host.modules import GDRCOPY, NVIDIA, PEER_MEMORY, loaded

SECTION = "gpus"


def gpus(host: CheckedHost) -> Iterator[Check]:
    """The GPUs by model; GPUDirect's modules where NVIDIA's are."""
    machine = detect(host.root)
    there = [machine.devices[number] for number in machine.gpus]
    if not there:
        yield Check(SECTION, "gpus", State.OK, "none", (), {"gpus": []})
        return
    models = Counter(f"{gpu.vendor} {gpu.model}".strip() for gpu in there)
    words = ", ".join(f"{number} × {model}" if number > 1 else model for model, number in models.items())
    listed = [{"name": gpu.name, "vendor": gpu.vendor, "model": gpu.model, "busid": gpu.busid} for gpu in there]
    words += "; ringtree's calls take CPU memory, and `ringtree plan` predicts NCCL's over GPUs"
    yield Check(SECTION, "gpus", State.OK, words, (), {"gpus": listed})
    if any(gpu.vendor == "nvidia" for gpu in there):
        yield from _nvidia(host)


def _nvidia(host: CheckedHost) -> Iterator[Check]:
    driver = host.sysfs.line("sys/module/nvidia/version")
    smi = find("nvidia-smi")
    figures = {"driver": driver or None, "nvidia_smi": smi or None, "nvml": find_spec("pynvml") is not None}
    if not driver and not loaded(host.sysfs, NVIDIA):
        words = "NVIDIA's kernel driver is not loaded"
        yield Check(SECTION, "driver", State.NOTE, words, ("modprobe nvidia",), figures)
    elif not smi:
        words = f"{driver or 'loaded'}, without nvidia-smi: was this container started with its GPUs?"
        yield Check(SECTION, "driver", State.NOTE, words, ("docker run --gpus all",), figures)
    else:
        yield Check(SECTION, "driver", State.OK, f"{driver or 'loaded'}, {smi}", (), figures)
    if not figures["nvml"]:
        words = "Python's nvidia-ml-py is missing: NVLinks between GPUs stay unknown"
        yield Check(SECTION, "nvml", State.NOTE, words, (INSTALL,))
    for name, modules, use in (
        ("nvidia_peermem", PEER_MEMORY, "GPUDirect RDMA needs it, or dma-buf (open driver, Linux 5.12 or newer)"),
        ("gdrdrv", GDRCOPY, "UCX and NVSHMEM copy short messages faster with it (GDRCopy)"),
    ):
        if found := loaded(host.sysfs, modules):
            yield Check(SECTION, name, State.OK, f"{found} is loaded")
        else:
            yield Check(SECTION, name, State.NOTE, f"not loaded: {use}", (f"modprobe {name}",))
