"""Tables of copies as systems show them: the rates of `systems` are of the order that published measurements of such
machines have, and a fault is what a row is changed to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ringtree.bench.device_copies import sizes, transfers
from ringtree.machines.catalogue import machine
from ringtree.machines.detect.nvml_state import GpuState
from ringtree.machines.machine import Machine, PathKind
from ringtree.machines.measured.copies_table import CopyMethod, CopyTable, MeasuredCopy, Transfer
from ringtree.machines.paths import Paths, p2p

DATE = "2026-01-02T03:04:05+00:00"
MOST = 1 << 28
LAUNCH_S = 2e-6
BOTH = 0.8
"""Each direction's part of its own rate where both run at once."""
GB = 1e9
HEALTHY: Mapping[str, Mapping[str, float]] = {
    "dgx-1-v100": {"to": 12.3, "from": 12.9, "pageable": 6.0, "local": 380.0, "nvlink": 0.965, "staged": 9.0},
    "v100-pcie": {"to": 12.3, "from": 12.9, "pageable": 6.0, "local": 380.0, "nvlink": 0.965, "staged": 9.0},
    "dgx-a100": {"to": 24.6, "from": 25.4, "pageable": 9.0, "local": 780.0, "nvlink": 0.9, "staged": 16.0},
    "dgx-h100": {"to": 55.3, "from": 55.6, "pageable": 12.0, "local": 1300.0, "nvlink": 0.82, "staged": 35.0},
    "dgx-h200": {"to": 55.3, "from": 55.6, "pageable": 12.0, "local": 2000.0, "nvlink": 0.82, "staged": 35.0},
}
"""GB/s of healthy machines; `nvlink` as a part of the links' nominal rate. PCIe between GPUs: 0.9 of `to` below a
switch, 0.6 through a CPU."""
Rate = Callable[[Transfer, float], float]


def gpus(m: Machine) -> list[str]:
    return [m.devices[n].name for n in m.gpus]


def refusal(m: Machine) -> Callable[[str, str], str]:
    """The driver's refusals as NCCL's rule has them, without regard to the distance."""
    paths, names = Paths(m), gpus(m)
    return lambda a, b: "" if p2p(paths, names.index(a), names.index(b), PathKind.SYS).applies else "no"


def measured(name: str, change: Rate = lambda transfer, rate_Bps: rate_Bps) -> CopyTable:
    """The table of a healthy machine of the catalogue, with its rates changed."""
    m, figures = machine(name), HEALTHY[name]
    rows = []
    for transfer in transfers(m, gpus(m), refusal(m)):
        rate_Bps = change(transfer, _rate_Bps(m, transfer, figures))
        for nbytes in sizes(transfer, MOST):
            seconds = LAUNCH_S * (1 + (transfer.source != transfer.target)) + nbytes / rate_Bps
            both = transfer.both
            rows.append(MeasuredCopy(transfer.source, transfer.target, transfer.method, nbytes, seconds, both))
    return CopyTable(m, tuple(rows), DATE)


def _rate_Bps(m: Machine, transfer: Transfer, figures: Mapping[str, float]) -> float:
    whole = BOTH if transfer.both else 1.0
    if transfer.method in (CopyMethod.PAGEABLE, CopyMethod.STAGED):
        return figures[transfer.method.value] * GB
    if transfer.method is CopyMethod.LOCAL:
        return figures["local"] * GB
    if transfer.method is CopyMethod.PINNED:
        return whole * figures["to" if transfer.target.startswith("gpu") else "from"] * GB
    path = Paths(m).between(m.device(transfer.source), m.device(transfer.target))
    if path.kind in (PathKind.NVL, PathKind.NVB):
        return whole * figures["nvlink"] * path.bandwidth_Bps
    return whole * figures["to"] * GB * (0.9 if path.kind <= PathKind.PXB else 0.6)


def state(m: Machine, gpu: str, **changed: object) -> GpuState:
    """A GPU's state at its most, with some changed: PCIe of its link, all NVLinks up."""
    number = m.device(gpu)
    link = next(k for k in m.links if k.source == number and k.kind.value == "pcie")
    up = sum(k.width for k in m.links if k.source == number and k.kind.value == "nvlink")
    most = (link.generation, link.width)
    whole = GpuState(m.devices[number].busid, m.devices[number].model, *most, most[0], most[0], most[1], nvlinks_up=up)
    return replace(whole, **changed)  # type: ignore[arg-type]
