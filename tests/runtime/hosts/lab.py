"""Several hosts on this machine: network namespaces that a bridge joins, each with an address.

The bridge has a namespace of its own, so nothing of a lab shows outside, and all of it is gone when its processes are.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

CLONE_NEWNET = 0x40000000
CLONE_NEWTIME = 0x80
NAMESPACES = ("unshare", "--net", "--uts", "--ipc", "--mount", "--time")
FRESH = "mount -t tmpfs tmpfs /dev/shm && mount -t sysfs sysfs /sys && exec cat"
"""What a namespace begins with: programs find neither another host's shared memory nor its devices. It ends with its
maker."""
REACH = """
import socket, sys, time
for _ in range(100):
    try:
        socket.create_connection((sys.argv[1], 9), timeout=1)
    except ConnectionRefusedError:
        break
    except OSError:
        time.sleep(0.1)
else:
    sys.exit("out of reach")
"""
"""Waits until a host answers, if only to refuse."""
CLOCK_APART_S = 100_000
"""Seconds between the clocks of a host and the next."""
NEEDED = ("ip", "unshare", "nsenter")


def missing() -> str:
    """Why no lab can be made here; "" where one can."""
    lacking = [tool for tool in NEEDED if shutil.which(tool) is None]
    if lacking:
        return f"no {lacking[0]} here, which makes hosts of namespaces (iproute2, util-linux)"
    if subprocess.run([*NAMESPACES, "sh", "-c", FRESH], stdin=subprocess.DEVNULL, capture_output=True).returncode:
        return "network namespaces cannot be made here: root makes them"
    return ""


def enter_all(namespaces: list[str]) -> None:
    """Moves this process, of one thread, to a host: with its name, shared memory and devices."""
    libc, here = ctypes.CDLL(None, use_errno=True), os.getcwd()
    with contextlib.ExitStack() as files:
        for file in [files.enter_context(open(path)) for path in namespaces]:
            if libc.setns(file.fileno(), 0):
                raise OSError(ctypes.get_errno(), f"setns of {file.name}")
    os.chdir(here)


def own_clock() -> None:
    """Gives this process, of one thread, the monotonic clock of its host, which began at another time than others'."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWTIME):
        return  # a kernel without them
    began_s = os.stat("/proc/self/ns/net").st_ino % 1000 * 1000
    Path("/proc/self/timens_offsets").write_text(f"monotonic {began_s} 0\n")
    enter_all(["/proc/self/ns/time_for_children"])


def per_flow(rate: str, flow_rate: str) -> list[str]:
    """Commands for tc: a bucket for each low byte of the sender's port, which is random where it connected."""
    under = "filter add dev eth0 parent 1: protocol ip prio 1"
    commands = [
        "qdisc add dev eth0 root handle 1: htb default 1 r2q 1000",
        f"class add dev eth0 parent 1: classid 1:1 htb rate {rate} burst 512kb cburst 512kb",
        f"{under} handle 2: u32 divisor 256",
        f"{under} u32 ht 800:: match ip protocol 6 0xff hashkey mask 0x00ff0000 at 20 link 2:",
    ]
    for byte in range(256):
        limit = f"rate 1mbit ceil {flow_rate} burst 64kb cburst 64kb quantum 9000"
        commands.append(f"class add dev eth0 parent 1:1 classid 1:{byte + 16:x} htb {limit}")
        commands.append(f"{under} u32 ht 2:{byte:x}: match ip protocol 6 0xff flowid 1:{byte + 16:x}")
    return commands


class Lab:
    """Hosts 0..n-1 at 10.99.0.1 and fd00:99::1 and on. `rate`: of each host's link, as tc writes it; `flow_rate`: of
    each connection over it, by the host that sends (two in some hundred share a bucket). `burst`: the bytes that a
    link which was idle lets pass at once. `delay_s`: of every frame; links are then those of delayed_links.py, which
    have no bursts and no limit a connection, and `link` cannot take them down. CLOCK_MONOTONIC of host h is
    CLOCK_APART_S * h seconds ahead of this machine's, in a time namespace, as hosts that booted at other times."""

    def __init__(
        self, hosts: int, rate: str = "", flow_rate: str = "", burst: str = "512kb", delay_s: float = 0.0
    ) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            if delay_s:
                self._hosts = self._delayed(hosts, rate, delay_s)
                return
            self._switch = self._namespace()
            self._in(self._switch, "ip link add bridge type bridge")
            self._in(self._switch, "ip link set bridge up")
            self._hosts = [self._host(host, rate, flow_rate, burst) for host in range(hosts)]
        except BaseException:
            self.close()
            raise

    @property
    def hosts(self) -> int:
        return len(self._hosts)

    def address(self, host: int) -> str:
        return f"10.99.0.{host + 1}"

    def address_v6(self, host: int) -> str:
        return f"fd00:99::{host + 1}"

    def name(self, host: int) -> str:
        return f"lab{host}"

    def command(self, host: int) -> list[str]:
        """What a command begins with that runs on a host: with a name, shared memory and devices of its own."""
        return ["nsenter", "-t", str(self._hosts[host]), "-n", "-u", "-i", "-m", "-T", f"--wd={os.getcwd()}"]

    def enter(self, host: int) -> None:
        """Moves the calling process, of one thread, to a host; what it starts from then on is there, too."""
        libc = ctypes.CDLL(None, use_errno=True)
        for name, kind in (("net", CLONE_NEWNET), ("time_for_children", CLONE_NEWTIME)):
            with open(f"/proc/{self._hosts[host]}/ns/{name}") as namespace:
                if libc.setns(namespace.fileno(), kind):
                    raise OSError(ctypes.get_errno(), f"setns {name}")

    def namespaces(self, host: int) -> list[str]:
        """The files of a host's namespaces, for `enter_all` in another process."""
        return [f"/proc/{self._hosts[host]}/ns/{kind}" for kind in ("net", "uts", "ipc", "mnt")]

    def link(self, host: int, state: str) -> None:
        """Takes a host's link `down`, or `up` again: then it is reachable before this returns."""
        self._in(self._switch, f"ip link set port{host} {state}")
        if state == "up":
            self._reach(host)

    def outage(self, host: int, duration_s: float) -> None:
        """Takes a host's link down for that long, by one process: on a busy machine another takes its time to start."""
        port = f"ip link set port{host}"
        self._in(self._switch, f"{port} down && sleep {duration_s} && {port} up")
        self._reach(host)

    def _reach(self, host: int) -> None:
        for other in range(self.hosts):
            if other != host:
                subprocess.run([*self.command(other), sys.executable, "-c", REACH, self.address(host)], check=True)

    def run(self, host: int, command: str) -> str:
        """What a shell's command prints on a host."""
        return self._in(self._hosts[host], command)

    def received_bytes(self, host: int) -> int:
        """What has come in over a host's link, headers included."""
        return int(self._in(self._hosts[host], "cat /sys/class/net/eth0/statistics/rx_bytes"))

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _namespace(self, host: int = 0) -> int:
        ahead = ("--monotonic", str(CLOCK_APART_S * host))
        process = subprocess.Popen([*NAMESPACES, *ahead, "sh", "-c", FRESH], stdin=subprocess.PIPE)
        self._processes.append(process)
        own = os.readlink("/proc/self/ns/net")
        for _ in range(500):
            with contextlib.suppress(OSError):
                started = Path(f"/proc/{process.pid}/comm").read_text() == "cat\n"
                if started and os.readlink(f"/proc/{process.pid}/ns/net") != own:
                    return process.pid
            time.sleep(0.01)
        raise RuntimeError("unshare made no namespace")

    def _host(self, host: int, rate: str, flow_rate: str, burst: str) -> int:
        pid = self._namespace(host)
        self._in(self._switch, f"ip link add port{host} type veth peer name eth0 netns {pid}")
        self._in(self._switch, f"ip link set port{host} master bridge up")
        self._in(pid, f"hostname {self.name(host)}")
        for command in (
            "ip link set lo up",
            f"ip addr add {self.address(host)}/24 dev eth0",
            f"ip addr add {self.address_v6(host)}/64 dev eth0 nodad || true",  # a kernel without IPv6
            "ip link set eth0 up",
        ):
            self._in(pid, command)
        if rate:
            limit = f"root tbf rate {rate} burst {burst} latency 50ms"
            self._in(self._switch, f"tc qdisc add dev port{host} {limit}")
            if not flow_rate:
                self._in(pid, f"tc qdisc add dev eth0 {limit}")
        if flow_rate:
            self._in(pid, "tc -batch -", "\n".join(per_flow(rate or "100gbit", flow_rate)))
        return pid

    def _delayed(self, hosts: int, rate: str, delay_s: float) -> list[int]:
        """The hosts, joined by a switch in user space; returns when it carries frames."""
        found = [self._namespace(host) for host in range(hosts)]
        for host, pid in enumerate(found):
            self._in(pid, f"hostname {self.name(host)}")
        units = {"gbit": 1.25e8, "mbit": 1.25e5}
        rate_Bps = float(rate[:-4]) * units[rate[-4:]] if rate else 1.25e10
        ends = [f"{pid}:{self.address(host)}" for host, pid in enumerate(found)]
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("delayed_links.py")), str(delay_s), str(rate_Bps), *ends],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._processes.append(process)
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise RuntimeError("the switch in user space has no links: it needs /dev/net/tun")
        return found

    def _in(self, pid: int, command: str, given: str = "") -> str:
        done = subprocess.run(
            ["nsenter", "-t", str(pid), "-n", "-u", "-m", "sh", "-c", command],
            input=given,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stderr.strip()}")
        return done.stdout
