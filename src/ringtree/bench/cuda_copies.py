"""Copies by NVIDIA's driver, through cuda-bindings: contexts, buffers, and times by the device's own events."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from ringtree.machines import parts
from ringtree.machines.detect.nvml import text_of
from ringtree.machines.detect.nvml_state import GpuState, gpu_states
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, Machine, Note, NoteKind, both_ways
from ringtree.machines.measured.copies_table import CopyMethod, Transfer
from ringtree.machines.sysfs import Sysfs, cpu_list
from ringtree.runtime.engines.device.driver import driver

LOADED_S = 0.2
"""Seconds of copies queued on a GPU while its state is read."""
HOST = ""
"""A name that no GPU has."""


class CudaCopier:
    """The CUDA devices that this process may use, by the names that `machine` has for their PCI addresses. Buffers of
    `most_nbytes` are allocated when they are first needed."""

    def __init__(self, machine: Machine, most_nbytes: int) -> None:
        self._cuda = driver()
        self.machine, self._most = machine, most_nbytes
        self._close = contextlib.ExitStack()
        self._devices: dict[str, _Device] = {}
        self._peers: tuple[str, str] | None = None
        try:
            for number in range(self._do("cuDeviceGetCount")):
                device = _Device(self._do, self._close, number, most_nbytes)
                self._devices[self._name(number, device)] = device
        except BaseException:
            self.close()
            raise
        if not self._devices:
            raise RuntimeError("the CUDA driver lists no device; expected one: is CUDA_VISIBLE_DEVICES empty?")

    def _name(self, number: int, device: _Device) -> str:
        """The device's name in the machine, which gets it where detection has not found it, as in a sandbox."""
        devices = self.machine.devices
        known = {d.busid: d.name for d in devices if d.kind is DeviceKind.GPU}
        if device.busid in known:
            return known[device.busid]
        name = next(free for n in count(number) if (free := f"gpu{n}") not in {d.name for d in devices})
        self.machine = with_gpu(
            self.machine, name, device.busid, text_of(self._do("cuDeviceGetName", 64, device.handle))
        )
        return name

    @property
    def gpus(self) -> tuple[str, ...]:
        """The devices' names, in CUDA's order."""
        return tuple(self._devices)

    def close(self) -> None:
        """Gives back all memory and contexts."""
        self._close.close()

    def refusal(self, source: str, target: str) -> str:
        """As `Copier.refusal`; the reason is the driver's word alone."""
        a, b = (self._devices[name].handle for name in (source, target))
        return "" if self._do("cuDeviceCanAccessPeer", a, b) else "the driver refuses it"

    def state(self, gpu: str) -> GpuState | None:
        """As `Copier.state`: read from NVML while copies to and from the host run."""
        device = self._devices[gpu]
        nbytes, enqueue = self._most, self._pinned(device)
        started = self.time_s(Transfer(HOST, gpu, CopyMethod.PINNED), nbytes, 1)
        for _ in range(min(max(int(LOADED_S / max(started, 1e-6)), 1), 2000)):
            enqueue(nbytes, device.streams[0])
        report, _ = gpu_states()
        self._do("cuStreamSynchronize", device.streams[0])
        return next((state for state in report.gpus if state.busid == device.busid), None)

    def _pinned(self, device: _Device) -> Callable[[int, Any], None]:
        host = device.pinned(self._near(device))[0]
        return lambda nbytes, stream: self._do("cuMemcpyHtoDAsync", device.buffers()[0], host, nbytes, stream)

    def time_s(self, transfer: Transfer, nbytes: int, copies: int) -> float:
        """As `Copier.time_s`."""
        if transfer.method in (CopyMethod.PEER, CopyMethod.STAGED):
            self._access(transfer)
        device = self._devices[transfer.target if transfer.source not in self._devices else transfer.source]
        device.enter()
        one = self._enqueue(transfer)
        if transfer.method is CopyMethod.PAGEABLE:  # the processor copies, so its clock counts
            began = time.perf_counter()
            for _ in range(copies):
                one(nbytes, device.streams[0])
            self._do("cuStreamSynchronize", device.streams[0])
            return (time.perf_counter() - began) / copies
        if not transfer.both:
            return device.timed(lambda: one(nbytes, device.streams[0]), copies)
        other = self._devices.get(transfer.target, device)
        back = self._enqueue(Transfer(transfer.target, transfer.source, transfer.method), 1)
        return device.timed_both(
            lambda: one(nbytes, device.streams[0]), other, lambda: back(nbytes, other.streams[1]), copies
        )

    def _enqueue(self, transfer: Transfer, buffer: int = 0) -> Callable[[int, Any], None]:
        """The copy of a transfer: between GPUs from the first buffer to the second, else between the buffers of that
        number."""
        source, target = (self._devices.get(name) for name in (transfer.source, transfer.target))
        if source is not None and target is not None:
            here, there = source.buffers()[0], target.buffers()[1]
            if source is target:
                return lambda nbytes, stream: self._do("cuMemcpyDtoDAsync", there, here, nbytes, stream)
            into, out_of = target.context, source.context
            return lambda nbytes, stream: self._do("cuMemcpyPeerAsync", there, into, here, out_of, nbytes, stream)
        device = source or target
        assert device is not None
        hosts = device.pageable() if transfer.method is CopyMethod.PAGEABLE else device.pinned(self._near(device))
        host, memory = hosts[buffer], device.buffers()[buffer]
        if target is not None:
            return lambda nbytes, stream: self._do("cuMemcpyHtoDAsync", memory, host, nbytes, stream)
        return lambda nbytes, stream: self._do("cuMemcpyDtoHAsync", host, memory, nbytes, stream)

    def _access(self, transfer: Transfer) -> None:
        """Gives the two devices access to each other for PEER, and takes it for STAGED."""
        wanted = (transfer.source, transfer.target) if transfer.method is CopyMethod.PEER else None
        if wanted is not None and self._peers is not None and set(wanted) == set(self._peers):
            return
        for on, pair in ((False, self._peers), (True, wanted)):
            for a, b in (pair, pair[::-1]) if pair else ():
                if on and self.refusal(a, b):
                    continue
                self._devices[a].enter()
                name = "cuCtxEnablePeerAccess" if on else "cuCtxDisablePeerAccess"
                with contextlib.suppress(RuntimeError):  # was not given, one way
                    self._do(name, self._devices[b].context, *([0] if on else []))
        self._peers = wanted

    def _near(self, device: _Device) -> frozenset[int]:
        """The cores of the NUMA node that a device is near, as far as this process may use them."""
        found = next(d for d in self.machine.devices if d.busid == device.busid)
        listed = cpu_list(Sysfs(Path("/")).text(f"sys/devices/system/node/node{found.numa}/cpulist"))
        return frozenset(listed) & os.sched_getaffinity(0)

    def _do(self, name: str, *arguments: Any) -> Any:
        """Calls the driver; RuntimeError with the call's and the error's name."""
        code, *values = getattr(self._cuda, name)(*arguments)
        if int(code):
            raise RuntimeError(f"{name} of the CUDA driver failed: {code.name}")
        return values[0] if values else None


class _Device:
    """A device's context, its streams and buffers."""

    def __init__(self, do: Callable[..., Any], close: contextlib.ExitStack, number: int, most_nbytes: int) -> None:
        self._do, self._close, self._most = do, close, most_nbytes
        self.handle = do("cuDeviceGet", number)
        self.busid = _busid(do("cuDeviceGetPCIBusId", 32, self.handle))
        self.context = do("cuDevicePrimaryCtxRetain", self.handle)
        close.callback(do, "cuDevicePrimaryCtxRelease", self.handle)
        self.enter()
        self.streams = [do("cuStreamCreate", 1) for _ in range(2)]  # 1: not ordered after the default stream
        self._events = [do("cuEventCreate", 0) for _ in range(3)]
        self._buffers: tuple[int, ...] = ()
        self._pinned: tuple[int, ...] = ()
        self._pageable: tuple[int, ...] = ()

    def enter(self) -> None:
        """Makes its context the thread's."""
        self._do("cuCtxSetCurrent", self.context)

    def buffers(self) -> tuple[int, ...]:
        """Two buffers in its memory."""
        if not self._buffers:
            self.enter()
            self._buffers = tuple(int(self._do("cuMemAlloc", self._most)) for _ in range(2))
            for at in self._buffers:
                self._close.callback(self._freed, "cuMemFree", at)
        return self._buffers

    def pinned(self, near: frozenset[int]) -> tuple[int, ...]:
        """Two buffers of pinned memory of the host, on the NUMA node of those cores."""
        if not self._pinned:
            self.enter()
            with _on(near):
                self._pinned = tuple(int(self._do("cuMemHostAlloc", self._most, 1)) for _ in range(2))  # 1: portable
            for at in self._pinned:
                self._close.callback(self._freed, "cuMemFreeHost", at)
        return self._pinned

    def pageable(self) -> tuple[int, ...]:
        """Two buffers of plain memory of the host, each page of which was written."""
        if not self._pageable:
            maps = [mmap.mmap(-1, self._most) for _ in range(2)]
            for each in maps:
                each[:: mmap.PAGESIZE] = bytes([1]) * len(range(0, self._most, mmap.PAGESIZE))
            held = [ctypes.c_char.from_buffer(each) for each in maps]
            self._close.callback(held.clear)
            self._pageable = tuple(ctypes.addressof(each) for each in held)
        return self._pageable

    def timed(self, enqueue: Callable[[], None], copies: int) -> float:
        """Seconds of a copy, by the device's events."""
        start, end, _ = self._events
        stream = self.streams[0]
        self._do("cuEventRecord", start, stream)
        for _ in range(copies):
            enqueue()
        self._do("cuEventRecord", end, stream)
        self._do("cuEventSynchronize", end)
        return self._elapsed_s(start, end) / copies

    def timed_both(self, one: Callable[[], None], other: _Device, back: Callable[[], None], copies: int) -> float:
        """Seconds of a copy on the first stream and one on the other device's second at once, from the first start to
        the last end."""
        start, end, _ = self._events
        middle = other._events[2]
        self._do("cuEventRecord", start, self.streams[0])
        other.enter()
        self._do("cuStreamWaitEvent", other.streams[1], start, 0)
        for _ in range(copies):
            self.enter()
            one()
            other.enter()
            back()
        self._do("cuEventRecord", middle, other.streams[1])
        self.enter()
        self._do("cuStreamWaitEvent", self.streams[0], middle, 0)
        self._do("cuEventRecord", end, self.streams[0])
        self._do("cuEventSynchronize", end)
        return self._elapsed_s(start, end) / copies

    def _elapsed_s(self, start: Any, end: Any) -> float:
        return max(float(self._do("cuEventElapsedTime", start, end)) * 1e-3, 1e-9)

    def _freed(self, name: str, at: int) -> None:
        self.enter()
        self._do(name, at)


def with_gpu(machine: Machine, name: str, busid: str, model: str) -> Machine:
    """The machine and a GPU more, near its first CPU, of unknown link: taken as PCIe 3 x16, as NCCL does."""
    cpu = machine.of_kind(DeviceKind.CPU)[0]
    link = Link(len(machine.devices), cpu, LinkKind.PCIE, 16 * parts.PCIE[3].bandwidth_Bps, generation=3, width=16)
    text = "neither /sys nor NVML lists it, the CUDA driver does: its link is taken as PCIe 3 x16, near the first CPU"
    return replace(
        machine,
        devices=(*machine.devices, Device(name, DeviceKind.GPU, "nvidia", model.strip("\0 "), busid)),
        links=(*machine.links, *both_ways(link)),
        notes=(*machine.notes, Note(NoteKind.ASSUMED, name, text)),
    )


@contextlib.contextmanager
def _on(cores: frozenset[int]) -> Iterator[None]:
    """Runs this thread on those cores, where there are some: memory is taken from where it runs."""
    before = os.sched_getaffinity(0)
    if cores:
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _busid(text: bytes | str) -> str:
    """sysfs' spelling of the driver's."""
    spelled = text.decode() if isinstance(text, bytes) else text
    domain, _, rest = spelled.strip("\0 ").lower().partition(":")
    return f"{domain[-4:]}:{rest}"
