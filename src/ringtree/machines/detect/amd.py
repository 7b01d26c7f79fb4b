"""AMD's GPUs and the xGMI links between them, as the kernel's KFD reports them: no library is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ringtree.machines.sysfs import Sysfs, number

NODES = "sys/class/kfd/kfd/topology/nodes"
XGMI = 11
"""KFD's number of the link's kind."""


@dataclass(frozen=True, slots=True)
class KfdGpu:
    """`target` is the architecture, such as gfx942; `xgmi`: the bandwidth in B/s to each GPU by busid, 0 where there is
    a link of unknown bandwidth."""

    busid: str
    target: str
    xgmi: Mapping[str, float]


def kfd_gpus(sysfs: Sysfs) -> tuple[KfdGpu, ...]:
    """The GPUs in the order of KFD's nodes, which is HIP's."""
    nodes = {n: _properties(sysfs, f"{NODES}/{n}/properties") for n in sysfs.folder(NODES) if n.isdecimal()}
    busids = {n: _busid(node) for n, node in nodes.items() if node.get("simd_count", 0) > 0}
    return tuple(
        KfdGpu(busid, _target(nodes[n].get("gfx_target_version", 0)), _xgmi(sysfs, n, busids))
        for n, busid in busids.items()
    )


def _properties(sysfs: Sysfs, path: str) -> dict[str, int]:
    pairs = (line.partition(" ") for line in sysfs.text(path).splitlines())
    return {key: number(value.strip(), 0) for key, _, value in pairs}


def _busid(node: Mapping[str, int]) -> str:
    at = node.get("location_id", 0)
    return f"{node.get('domain', 0):04x}:{at >> 8 & 0xFF:02x}:{at >> 3 & 0x1F:02x}.{at & 7}"


def _target(version: int) -> str:
    """90402 is gfx942, 90010 gfx90a."""
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}" if version > 0 else ""


def _xgmi(sysfs: Sysfs, node: str, busids: Mapping[str, str]) -> dict[str, float]:
    found: dict[str, float] = {}
    folder = f"{NODES}/{node}/io_links"
    for name in sysfs.folder(folder):
        properties = _properties(sysfs, f"{folder}/{name}/properties")
        to = str(properties.get("node_to", -1))
        if properties.get("type") == XGMI and to in busids:
            found[busids[to]] = max(properties.get("max_bandwidth", 0), 0) * 1e6
    return found
