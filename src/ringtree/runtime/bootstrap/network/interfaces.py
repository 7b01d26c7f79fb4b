"""The network interfaces of this host, and by which of their addresses other hosts are likely to reach it."""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ringtree.runtime.bootstrap.environment import INTERFACE

VIRTUAL = ("docker", "br-", "veth", "virbr", "cni", "flannel", "cali", "podman", "lxcbr", "lxdbr", "kube")
"""The names of interfaces that join the containers of one machine: other hosts seldom reach them."""
IFF_UP = 0x1
ELSEWHERE = ("192.0.2.1", "2001:db8::1")
"""Addresses of documentation: nothing is sent there, but the kernel names the interface by which it would be."""


@dataclass(frozen=True, slots=True)
class InterfaceAddress:
    """One numeric address of an interface that is up."""

    name: str
    address: str

    @property
    def loopback(self) -> bool:
        """Whether it reaches this host only."""
        return ipaddress.ip_address(self.address).is_loopback

    @property
    def virtual(self) -> bool:
        """Whether the interface joins the containers of one machine, by its name."""
        return self.name.startswith(VIRTUAL)


class _Sockaddr(ctypes.Structure):
    _fields_ = (("family", ctypes.c_ushort), ("data", ctypes.c_ubyte * 26))


class _Ifaddrs(ctypes.Structure):
    pass


_Ifaddrs._fields_ = (
    ("next", ctypes.POINTER(_Ifaddrs)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.POINTER(_Sockaddr)),
)


def interface_addresses() -> list[InterfaceAddress]:
    """The addresses of all interfaces that are up, but for addresses of one link only, which name no host elsewhere."""
    libc = ctypes.CDLL(None, use_errno=True)
    first = ctypes.POINTER(_Ifaddrs)()
    if libc.getifaddrs(ctypes.byref(first)):
        raise OSError(ctypes.get_errno(), "getifaddrs")
    found = []
    try:
        entry: Any = first
        while entry:
            it = entry.contents
            address = _numeric(it.address) if it.flags & IFF_UP and it.address else ""
            if address and not ipaddress.ip_address(address).is_link_local:
                found.append(InterfaceAddress(it.name.decode(), address))
            entry = it.next
    finally:
        libc.freeifaddrs(first)
    return found


def candidates(env: Mapping[str, str] | None = None) -> list[str]:
    """This host's addresses in the order in which other hosts are to try them: first of the interface that leads
    elsewhere, IPv4 before IPv6, those of containers last, and of the loopback interface where there is no other."""
    if chosen := chosen_interface(env):
        return [found.address for found in chosen]
    there = interface_addresses()
    leading = set(filter(None, map(_leading, ELSEWHERE)))

    def order(found: InterfaceAddress) -> tuple[bool, bool, bool]:
        return found.virtual, found.address not in leading, ":" in found.address

    outward = sorted((found for found in there if not found.loopback), key=order)
    return [found.address for found in outward or there]


def chosen_interface(env: Mapping[str, str] | None = None) -> list[InterfaceAddress]:
    """The addresses that RINGTREE_INTERFACE names, IPv4 first; none where it is not set. ValueError lists those there
    are where it names none of them."""
    text = (os.environ if env is None else env).get(INTERFACE, "")
    if not text:
        return []
    there = interface_addresses()
    found = [one for one in there if text in (one.name, one.address) or f"[{one.address}]" == text]
    if not found:
        outward = [one for one in there if not one.loopback] or there
        listed = ", ".join(f"{one.name} ({one.address})" for one in outward) or "none"
        raise ValueError(f"{INTERFACE} is {text!r}; expected an interface of this host or its address: {listed}")
    return sorted(found, key=lambda one: ":" in one.address)


def leading_interface(towards: str = "", env: Mapping[str, str] | None = None) -> tuple[InterfaceAddress | None, str]:
    """(the address at which other hosts reach this one, the reason in words): the one that RINGTREE_INTERFACE names,
    else on the way to the host `towards`, else the first of `candidates`. None where this host has no address.
    ValueError as `chosen_interface`; OSError where `towards` has no address."""
    if chosen := chosen_interface(env):
        return chosen[0], f"{INTERFACE} names it"
    there = {found.address: found for found in interface_addresses()}
    if towards:
        numeric = str(socket.getaddrinfo(towards, 9, type=socket.SOCK_DGRAM)[0][4][0])
        here = _leading(numeric)
        return there.get(here), f"it leads to rank 0's host {towards}" if here else f"no interface leads to {towards}"
    first = next((there[address] for address in candidates(env) if address in there), None)
    if first is None:
        return None, "no interface of this host is up"
    if first.loopback:
        return first, "there is no other"
    leads = first.address in map(_leading, ELSEWHERE)
    others = sum(not found.loopback for found in there.values()) > 1
    return first, "the default route leads there" if leads else "the first of several" if others else "the only one"


def interface_of(address: str) -> str:
    """The name of the interface with that address; "" where this host has none."""
    with contextlib.suppress(OSError):
        return next((found.name for found in interface_addresses() if found.address == address), "")
    return ""


def _numeric(at: Any) -> str:
    family, data = at.contents.family, bytes(at.contents.data)
    if family == socket.AF_INET:
        return socket.inet_ntop(family, data[2:6])
    return socket.inet_ntop(family, data[6:22]) if family == socket.AF_INET6 else ""


def _leading(elsewhere: str) -> str:
    """This host's address on the way to another."""
    with contextlib.suppress(OSError), socket.socket(_family(elsewhere), socket.SOCK_DGRAM) as unsent:
        unsent.connect((elsewhere, 9))
        return str(unsent.getsockname()[0])
    return ""


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
