"""Network interfaces: all that the kernel lists, also those without a device."""

from __future__ import annotations

from dataclasses import dataclass

from ringtree.machines.sysfs import Sysfs

NET = "sys/class/net"
LOOPBACK = 772
"""The kernel's number of the type of lo."""
KINDS = {"bridge": "bridge", "bonding": "bond", "tun_flags": "tunnel", "wireless": "wireless"}
"""Kinds by the file or folder that marks an interface."""


@dataclass(frozen=True, slots=True)
class NetworkInterface:
    """An interface. `kind`: "device", "loopback", "bridge", "bond", "vlan", …, or "virtual" for another one without a
    device, such as an end of a veth pair. `rate_Bps` is 0 where it is unknown; `lower`: the interfaces below a bond."""

    name: str
    up: bool
    rate_Bps: float
    mtu_bytes: int
    kind: str
    driver: str = ""
    lower: tuple[str, ...] = ()

    @property
    def physical(self) -> bool:
        """Whether its rate is a card's: a device's, or a bond's."""
        return self.kind in ("device", "bond", "vlan", "wireless")


def network_interfaces(sysfs: Sysfs) -> tuple[NetworkInterface, ...]:
    """All interfaces of this network namespace, by name; empty where /sys does not list them."""
    return tuple(_interface(sysfs, name) for name in sysfs.folder(NET) if sysfs.folder(f"{NET}/{name}"))


def _interface(sysfs: Sysfs, name: str) -> NetworkInterface:
    at = f"{NET}/{name}"
    Mbps = sysfs.number(f"{at}/speed", 0)
    state = sysfs.text(f"{at}/operstate")
    up = state == "up" or (state == "unknown" and bool(sysfs.number(f"{at}/flags", 0) & 1))
    driver = sysfs.real(f"{at}/device/driver").rpartition("/")[2]
    lower = tuple(sysfs.line(f"{at}/bonding/slaves").split())
    rate_Bps = Mbps * 1e6 / 8 if 0 < Mbps < 1 << 31 else 0.0  # 4294967295 is -1, as some drivers report it
    return NetworkInterface(
        name, up, rate_Bps, max(sysfs.number(f"{at}/mtu"), 0), _kind(sysfs, at, name), driver, lower
    )


def _kind(sysfs: Sysfs, at: str, name: str) -> str:
    if sysfs.number(f"{at}/type") == LOOPBACK:
        return "loopback"
    marks = set(sysfs.folder(at))
    for mark, kind in KINDS.items():
        if mark in marks:
            return kind
    typed = next((line[8:] for line in sysfs.text(f"{at}/uevent").splitlines() if line.startswith("DEVTYPE=")), "")
    if typed.isidentifier() and typed != "wlan":
        return typed
    return "device" if "device" in marks else "virtual"
