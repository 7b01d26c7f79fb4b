"""RDMA devices with their drivers, and the device files by which a process uses them."""

from __future__ import annotations

from dataclasses import dataclass

from ringtree.machines.detect.ports import RDMA, ports
from ringtree.machines.sysfs import Sysfs

VERBS = "dev/infiniband"
EFA = "efa"


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """A port of an RDMA device. `layer`: InfiniBand or Ethernet (RoCE); `driver`: as "mlx5_core" or "efa"; `rate_Bps`
    is 0 where it is unknown."""

    name: str
    layer: str
    driver: str
    rate_Bps: float
    up: bool

    @property
    def efa(self) -> bool:
        """Whether it is Amazon's."""
        return self.driver == EFA or self.name.startswith(f"{EFA}_")


def rdma_ports(sysfs: Sysfs) -> tuple[RdmaPort, ...]:
    """The ports of all RDMA devices."""
    return tuple(
        RdmaPort(
            port.name,
            port.layer,
            sysfs.real(f"{RDMA}/{port.rdma}/device/driver").rpartition("/")[2],
            port.rate_Bps,
            not port.down,
        )
        for port in ports(sysfs)
        if port.rdma
    )


def verbs_files(sysfs: Sysfs) -> tuple[str, ...]:
    """The device files of user-space verbs; a container has none unless it was given them."""
    return tuple(name for name in sysfs.folder(VERBS) if name.startswith("uverbs"))
