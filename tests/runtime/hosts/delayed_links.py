"""A switch in user space whose links have a delay and a rate: `DELAY_S BYTES_PER_SECOND PID:ADDRESS ...`.

Each namespace gets an eth0 whose frames come here. A frame takes the time of its bytes on its sender's link, then on
its receiver's, and arrives the delay later; kernels without netem delay nothing themselves. "ready" is printed when all
links are up; it ends with its standard input.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import select
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
MTU, LONGEST = 9000, 9100
MOST_FRAMES = 2000
"""Frames under way from a host: what comes after them is dropped, as by a switch."""
AHEAD_S = 1e-4
"""A sleep ends about so much late."""


def tap(pid: str, address: str) -> int:
    """The file of a namespace's eth0, which this makes."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(path: str) -> None:
        with open(path) as namespace:
            if libc.setns(namespace.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"setns {path}")

    enter(f"/proc/{pid}/ns/net")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22s", b"eth0", IFF_TAP | IFF_NO_PI, b""))
    for command in (f"ip link set eth0 mtu {MTU} up", f"ip addr add {address}/24 dev eth0", "ip link set lo up"):
        subprocess.run(command.split(), check=True)
    enter(f"/proc/{os.getppid()}/ns/net")
    return device


def switch(devices: list[int], delay_s: float, rate_Bps: float) -> None:
    """Carries frames from device to device until the process ends."""
    port_of: dict[bytes, int] = {}
    sent_s, received_s, under_way = ([0.0] * len(devices) for _ in range(3))
    waiting: list[tuple[float, int, int, int, bytes]] = []
    number = 0
    while True:
        now_s = time.perf_counter()
        while waiting and waiting[0][0] <= now_s:
            _, _, source, target, frame = heapq.heappop(waiting)
            under_way[source] -= 1
            with suppress(BlockingIOError):
                os.write(devices[target], frame)
        pause_s = max(waiting[0][0] - time.perf_counter() - AHEAD_S, 0.0) if waiting else 1.0
        for device in select.select(devices, [], [], pause_s)[0]:
            source = devices.index(device)
            with suppress(BlockingIOError):
                for _ in range(64):
                    frame = os.read(device, LONGEST)
                    now_s = time.perf_counter()
                    port_of[frame[6:12]] = source
                    sent_s[source] = max(sent_s[source], now_s) + len(frame) / rate_Bps
                    known = port_of.get(frame[:6])
                    for target in range(len(devices)) if known is None else (known,):
                        if target != source and under_way[source] < MOST_FRAMES:
                            began_s = max(sent_s[source] - len(frame) / rate_Bps, received_s[target])
                            received_s[target] = began_s + len(frame) / rate_Bps
                            due_s = max(received_s[target], sent_s[source]) + delay_s
                            heapq.heappush(waiting, (due_s, number, source, target, frame))
                            under_way[source] += 1
                            number += 1


def main() -> None:
    delay_s, rate_Bps, *hosts = sys.argv[1:]
    devices = [tap(*host.split(":")) for host in hosts]
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))  # a link does not wait for a turn
    print("ready", flush=True)
    threading.Thread(target=switch, args=(devices, float(delay_s), float(rate_Bps)), daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
