"""The places where a machine is below its nominal figures, and why, as far as the driver and the kernel know it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from statistics import median

from ringtree.ir.units import bandwidth, count
from ringtree.machines import parts
from ringtree.machines.detect.nvml_state import GpuState
from ringtree.machines.machine import Device, DeviceKind, LinkKind, Machine, PathKind
from ringtree.machines.measured.copies_table import CopyMethod, CopyTable, Rate, Transfer
from ringtree.machines.measured.expected import Expected

LOW_PART = 0.7
"""The part of the promised rate below which a copy is slow. Healthy copies reach 0.83 or more: 12.3 GB/s over PCIe 3
x16, 25 over PCIe 4, 55 over PCIe 5."""
LOW_PART_THROUGH_CPU = 0.35
"""As LOW_PART, of copies between GPUs through a CPU, which sends on less than its links carry."""
LOW_PART_LOCAL = 0.6
"""As LOW_PART, of the copies within a memory."""
ALIKE_PART = 0.8
"""The part of the median of like transfers below which one is named."""
DUPLEX_PART = 1.2
"""Both directions together over one alone: a link of two directions that carries less is half duplex."""


class FindingKind(str, Enum):
    """The kind of thing that is below its figures."""

    WIDTH = "width"
    GENERATION = "generation"
    SLOT = "slot"
    SLOW = "slow"
    DUPLEX = "half duplex"
    NVLINK = "nvlink"
    PEER = "peer access"
    CLOCKS = "clocks"
    MEMORY = "memory"
    UNLIKE = "unlike"
    MIG = "mig"


EXPLAINING = {FindingKind.WIDTH, FindingKind.GENERATION, FindingKind.NVLINK, FindingKind.CLOCKS, FindingKind.MIG}
"""Findings about a GPU after which its slow copies are no findings of their own."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`about` is a GPU or a pair of them. `remedies`: commands, or what to do, each of which may help."""

    kind: FindingKind
    about: str
    text: str
    remedies: tuple[str, ...] = ()


def findings(table: CopyTable) -> tuple[Finding, ...]:
    """The findings, causes before what has none. A machine that runs at its nominal figures has none."""
    expected, rates = Expected(table), table.rates()
    known: list[Finding] = []
    for name, state in table.states.items():
        known += [*_pcie(table.machine, expected, rates, name, state), *_state(table.machine, name, state)]
    known += _refused(table)
    explained = {finding.about for finding in known if finding.kind in EXPLAINING}
    found = [*known, *_slow(expected, rates, explained), *_half_duplex(rates)]
    explained |= {finding.about for finding in found}
    return (*found, *_unlike(expected, rates, explained))


def _pcie(
    machine: Machine, expected: Expected, rates: Mapping[Transfer, Rate], name: str, state: GpuState
) -> Iterator[Finding]:
    """The PCIe link of a GPU below its most, with what copies show of it."""
    seen = [
        (rate.bandwidth_Bps, expected.bandwidth_Bps(transfer))
        for transfer, rate in rates.items()
        if transfer.method is CopyMethod.PINNED and not transfer.both and name in (transfer.source, transfer.target)
    ]
    least = min(seen, default=None, key=lambda pair: pair[0])
    shown = f": {bandwidth(least[0])} from or to the host, of {bandwidth(least[1])}" if least and least[1] else ""
    lanes = f"x{state.width} of x{state.most_width} lanes"
    if 0 < state.width < state.most_width:
        text = f"its PCIe link has {lanes}{shown}"
        remedies = (
            "take the card and its riser out and put them in again",
            "look at the slot's lanes (bifurcation) in the firmware's setup",
        )
        yield Finding(FindingKind.WIDTH, name, text, (*remedies, "lspci -vv shows LnkSta beside LnkCap"))
    if 0 < state.generation < state.most_generation:
        text = f"its PCIe link runs at generation {state.generation} of {state.most_generation} while it copies{shown}"
        remedies = ("dmesg | grep -i AER shows errors of the link", "the slot's speed in the firmware's setup")
        yield Finding(FindingKind.GENERATION, name, text, remedies)
    if 0 < state.most_generation < state.gpu_generation:
        text = f"the GPU has PCIe {state.gpu_generation}, its slot, switch or riser PCIe {state.most_generation}"
        yield Finding(FindingKind.SLOT, name, text)


def _state(machine: Machine, name: str, state: GpuState) -> Iterator[Finding]:
    """Clocks, NVLinks and MIG of a GPU."""
    if state.slowed:
        text = f"its clocks were lowered while it copied, by {', '.join(state.slowed)}"
        yield Finding(FindingKind.CLOCKS, name, text, ("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER",))
    if state.mig:
        text = "MIG is on: its parts have no peer access and no NVLink, and share its PCIe link"
        yield Finding(FindingKind.MIG, name, text, (f"nvidia-smi -i {state.busid} -mig 0",))
    device = machine.devices[machine.device(name)]
    wires = _wires(device)
    there = state.nvlinks_up + state.nvlinks_down
    if 0 < state.nvlinks_up < max(wires, there):
        text = f"{state.nvlinks_up} of its {count(max(wires, there), 'NVLink')} are up"
        remedies = ("nvidia-smi nvlink -e shows their errors", "nvidia-smi -r -i " + state.busid)
        yield Finding(FindingKind.NVLINK, name, text, remedies)
    elif not state.nvlinks_up and there and wires and len(machine.gpus) > 1:
        text = f"none of its {count(there, 'NVLink')} is up"
        yield Finding(FindingKind.NVLINK, name, text, ("systemctl start nvidia-fabricmanager",))


def _wires(device: Device) -> int:
    """The NVLinks of a GPU by its part; 0 where it is unknown or they are bridges that may be absent."""
    raw = device.attributes.get("device", "")
    part = parts.gpu_by_id(0x10DE, int(raw, 16)) if raw.startswith("0x") else parts.GPUS.get(device.model)
    return part.wires if part and part.vendor == "nvidia" and ("SXM" in part.model or part.sm >= 100) else 0


def _refused(table: CopyTable) -> Iterator[Finding]:
    """Pairs without peer access, by reason."""
    by_reason: dict[str, list[str]] = {}
    for (a, b), why in table.refused.items():
        if a < b or (b, a) not in table.refused:
            by_reason.setdefault(why, []).append(f"{a}-{b}")
    for why, pairs in by_reason.items():
        few = ", ".join(pairs[:6]) + (f" and {len(pairs) - 6} more" if len(pairs) > 6 else "")
        yield Finding(FindingKind.PEER, few, f"no peer access, copies go by the host's memory: {why}")


def _slow(expected: Expected, rates: Mapping[Transfer, Rate], explained: set[str]) -> Iterator[Finding]:
    """Transfers below what is promised, at whose ends nothing was found that explains it."""
    for transfer, rate in rates.items():
        promised_Bps = expected.bandwidth_Bps(transfer)
        if promised_Bps is None or {transfer.source, transfer.target} & explained:
            continue
        path = expected.path(transfer)
        local = transfer.method is CopyMethod.LOCAL
        through_cpu = transfer.method is CopyMethod.PEER and path.kind >= PathKind.PHB
        low = LOW_PART_LOCAL if local else LOW_PART_THROUGH_CPU if through_cpu else LOW_PART
        if rate.bandwidth_Bps >= low * promised_Bps:
            continue
        part = f"{bandwidth(rate.bandwidth_Bps)}, {rate.bandwidth_Bps / promised_Bps:.0%} of {bandwidth(promised_Bps)}"
        if local:
            text = f"copies within its memory run at {part}"
            yield Finding(FindingKind.MEMORY, transfer.source, text, ("nvidia-smi -q -d CLOCK,ECC,PERFORMANCE",))
            continue
        kinds = {expected.machine.links[n].kind for n in path.links}
        remedies = NVLINK_REMEDIES if LinkKind.NVLINK in kinds else PCIE_REMEDIES
        about, text = f"{transfer.source}-{transfer.target}", f"copies from {transfer.source} to {transfer.target}"
        yield Finding(FindingKind.SLOW, about, f"{text} ({path.kind.name}) run at {part}", remedies)


PCIE_REMEDIES = (
    "other programs on the GPU or the host's memory: nvidia-smi, ringtree doctor",
    "lspci -vv shows LnkSta of each bridge on the way",
    "an IOMMU that translates, or ACS: ringtree doctor",
)
NVLINK_REMEDIES = ("nvidia-smi nvlink -s and -e show their state and errors",)


def _unlike(expected: Expected, rates: Mapping[Transfer, Rate], explained: set[str]) -> Iterator[Finding]:
    """Transfers far below the median of like ones: of the same method over paths of one kind and bandwidth."""
    like: dict[tuple[object, ...], list[tuple[Transfer, float]]] = {}
    for transfer, rate in rates.items():
        path, to_host = expected.path(transfer), _to_host(expected.machine, transfer)
        key = transfer.method, transfer.both, path.kind, path.bandwidth_Bps, to_host
        like.setdefault(key, []).append((transfer, rate.bandwidth_Bps))
    for group in like.values():
        usual_Bps = median(rate_Bps for _, rate_Bps in group)
        for transfer, rate_Bps in group if len(group) > 2 else ():
            ends = {transfer.source, transfer.target, f"{transfer.source}-{transfer.target}"}
            if rate_Bps < ALIKE_PART * usual_Bps and not ends & explained:
                about = f"{transfer.source}-{transfer.target}"
                words = f"{transfer.method.value} copies{' both ways at once' if transfer.both else ''}"
                text = f"{words} from {transfer.source} to {transfer.target} run at {bandwidth(rate_Bps)}, "
                yield Finding(
                    FindingKind.UNLIKE, about, f"{text}{len(group)} like ones usually at {bandwidth(usual_Bps)}"
                )


def _to_host(machine: Machine, transfer: Transfer) -> bool:
    """Whether a copy goes to the host, which may differ from one that comes from there."""
    return machine.devices[machine.device(transfer.target)].kind is DeviceKind.CPU


def _half_duplex(rates: Mapping[Transfer, Rate]) -> Iterator[Finding]:
    """Links whose two directions together carry hardly more than one."""
    for transfer, rate in rates.items():
        one = rates.get(Transfer(transfer.source, transfer.target, transfer.method))
        back = rates.get(Transfer(transfer.target, transfer.source, transfer.method))
        if not transfer.both or transfer.method not in (CopyMethod.PINNED, CopyMethod.PEER) or one is None:
            continue
        alone_Bps = max(one.bandwidth_Bps, back.bandwidth_Bps if back else 0.0)
        if 2 * rate.bandwidth_Bps < DUPLEX_PART * alone_Bps:
            text = f"both directions at once carry {bandwidth(2 * rate.bandwidth_Bps)} together, one alone "
            about = f"{transfer.source}-{transfer.target}"
            yield Finding(FindingKind.DUPLEX, about, f"{text}{bandwidth(alone_Bps)}", PCIE_REMEDIES[:1])
