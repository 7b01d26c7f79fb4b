"""The wires between hosts: TCP, UCX, and the RDMA devices that UCX drives."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from ringtree.cli.doctor.check import Check, CheckedHost, State
from ringtree.cli.doctor.programs import ask
from ringtree.ir.units import count, line_rate
from ringtree.machines.host.rdma import RdmaPort, rdma_ports, verbs_files
from ringtree.runtime.engines.wires import DEFAULT, VARIABLE, chosen
from ringtree.runtime.engines.wires.tcp import connections
from ringtree.runtime.engines.wires.ucx import LIBRARY, library

SECTION = "wires"
UCX = """
import ctypes, sys
ucp = ctypes.CDLL(sys.argv[1])
numbers = [ctypes.c_uint() for _ in range(3)]
ucp.ucp_get_version(*map(ctypes.byref, numbers))
at = next((line.split()[-1] for line in open("/proc/self/maps") if "libucp" in line), sys.argv[1])
print(*(number.value for number in numbers), at)
"""
"""Loads a libucp, and prints its version and its path."""
LEAST_UCX = (1, 18)


def wire(host: CheckedHost) -> Iterator[Check]:
    """The wire that calls would take, and TCP's settings."""
    try:
        name = chosen(host.env)
        number = connections()
    except ValueError as error:
        yield Check(SECTION, "wire", State.PROBLEM, str(error), (f"unset {VARIABLE}",))
        return
    words = f"{name}, as {VARIABLE} asks" if VARIABLE in host.env else f"{name}, the default"
    yield Check(SECTION, "wire", State.OK, words, (), {"wire": name})
    control = host.sysfs.line("proc/sys/net/ipv4/tcp_congestion_control")
    most = host.sysfs.text("proc/sys/net/ipv4/tcp_wmem").split()[-1:]
    figures = {
        "congestion_control": control or None,
        "most_send_buffer_bytes": int(most[0]) if most and most[0].isdecimal() else None,
        "connections": number,
    }
    asked = "as many connections as help" if number is None else count(number, "connection")
    yield Check(SECTION, "tcp", State.OK, ", ".join(filter(None, ("always here", control, asked))), (), figures)


def ucx(host: CheckedHost) -> Iterator[Check]:
    """The UCX that the wire would load, and whether it knows RDMA."""
    wanted = host.env.get(VARIABLE) == "ucx"
    bad = State.PROBLEM if wanted else State.NOTE
    named = library()
    remedies = ("pip install libucx-cu12",)
    output, why = ask([sys.executable, "-c", UCX, named])
    parts = output.rpartition("\n")[2].split(maxsplit=3)
    if len(parts) < 4 or not all(part.isdecimal() for part in parts[:3]):
        if LIBRARY in host.env:
            remedies = (f"unset {LIBRARY}",)
        needless = "" if wanted else f"; only {VARIABLE}=ucx needs it"
        words = f"no {named} that loads ({why.rpartition(': ')[2] or 'no version'}){needless}"
        yield Check(SECTION, "ucx", bad if wanted else State.OK, words, remedies, {"library": None, "version": None})
        return
    version, at = ".".join(parts[:3]), parts[3]
    verbs = _verbs(at)
    figures = {"library": at, "version": version, "verbs": verbs}
    words = f"{version}, {at}"
    if tuple(map(int, parts[:2])) < LEAST_UCX:
        least = ".".join(map(str, LEAST_UCX))
        yield Check(SECTION, "ucx", bad, f"{words}: older than {least}", remedies, figures)
    elif not verbs and any(port.up for port in rdma_ports(host.sysfs)):
        words += ": built without InfiniBand verbs, so that it cannot use the RDMA devices here; the system's UCX can"
        yield Check(SECTION, "ucx", State.NOTE, words, (f"export {LIBRARY}=libucp.so.0",), figures)
    else:
        yield Check(SECTION, "ucx", State.OK, words, (), figures)


def _verbs(path: str) -> bool:
    """Whether that libucp has its module for InfiniBand verbs."""
    return any(Path(path).parent.glob("ucx/libuct_ib*"))


def rdma(host: CheckedHost) -> Iterator[Check]:
    """RDMA devices by port, EFA among them, and whether this process may use them."""
    there = rdma_ports(host.sysfs)
    if not there:
        yield Check(SECTION, "rdma", State.OK, "no RDMA device (InfiniBand, RoCE, EFA)", (), {"ports": []})
        return
    for port in there:
        figures = {
            "layer": port.layer,
            "driver": port.driver,
            "rate_Bps": port.rate_Bps,
            "up": port.up,
            "efa": port.efa,
        }
        yield Check(SECTION, port.name, State.OK if port.up else State.NOTE, _words(port), (), figures)
    if not verbs_files(host.sysfs):
        words = "no /dev/infiniband/uverbs: a container is given the devices, or the kernel lacks the module"
        given = "docker run --device /dev/infiniband --cap-add IPC_LOCK --ulimit memlock=-1:-1"
        yield Check(SECTION, "verbs", State.NOTE, words, (given, "modprobe ib_uverbs"))
    if host.env.get(VARIABLE, DEFAULT) != "ucx" and any(port.up for port in there):
        words = "RDMA is here, and data between hosts goes over TCP; the wire ucx was never run over RDMA"
        yield Check(SECTION, "rdma", State.NOTE, words, (f"export {VARIABLE}=ucx",))


def _words(port: RdmaPort) -> str:
    kind = "EFA" if port.efa else {"InfiniBand": "InfiniBand", "Ethernet": "RoCE"}.get(port.layer, "RDMA")
    rate = line_rate(port.rate_Bps) if port.rate_Bps else "rate unknown"
    return ", ".join(filter(None, (kind, "up" if port.up else "down", rate, port.driver)))
