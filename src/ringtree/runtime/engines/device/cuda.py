"""A GPU of CUDA as a processor: memory that peers map, and programs begun on the caller's stream."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from ctypes import POINTER, addressof, c_char, c_int32, c_uint32, c_void_p, cast, create_string_buffer, memmove
from dataclasses import replace
from mmap import mmap
from struct import pack_into
from typing import Any, NamedTuple

from ringtree.price.devices import Devices
from ringtree.runtime.arrays.device import current_stream
from ringtree.runtime.engines.device.compiling import compiled
from ringtree.runtime.engines.device.driver import CudaError, address_of, attribute, call, driver
from ringtree.runtime.engines.device.element_types import DeviceTypes
from ringtree.runtime.engines.device.lanes import CALL, ENDED_IN_STATUS, PART_AT, STATUS, TOLL_BYTES
from ringtree.runtime.engines.device.processor import Ending, Launched
from ringtree.runtime.engines.engine import GroupParameters, native_module

MOST_BLOCKS = 64
LATENCY_S, TURN_S, LAUNCH_S = 1.5e-6, 300e-6, 4e-6
"""Seconds until another rank's kernel sees a signal; the same where ranks take turns on a device; of a launch."""
MEMORY_SHARE, MEMORY_BPS, NVLINK_BPS, PCIE_BPS = 0.88, 1e12, 300e9, 20e9
"""The share of a memory's nominal rate that a copy reaches (H200), and rates for want of better ones."""
ARENA_BYTES, ALIGNED = 1 << 22, 256
"""Small memory is taken from larger pieces, in multiples of ALIGNED."""
ARRIVED, RETURNED = 0, 1
WAITS = "RINGTREE_DEVICE_WAITS"
"""The variable that says who waits for peers on the same device: "kernel" or "stream"; by default kernels where the
Multi-Process Service runs."""
STAGING = "RINGTREE_DEVICE_STAGING"
"""The variable that asks for messages through the host's memory: "host"."""


class RankDevice(NamedTuple):
    """The device of a rank's arrays: its identity, its multiprocessors, the process, why peers cannot map its
    memory ("" where they can), and whether processes that share the device take turns on it."""

    device: bytes
    multiprocessors: int
    process: int
    refuses: str
    takes_turns: bool


class CudaProcessor:
    """One device of this process; see DeviceProcessor."""

    runs_ahead = True
    least_lying_bytes = 1 << 21  # to copy less takes less time than to wait until peers have read it

    def __init__(self, parameters: GroupParameters) -> None:
        self._parameters = parameters
        self._shared = 0
        self.number, self._context = _chosen_device()
        self._device = call("cuDeviceGet", self.number)
        call("cuCtxSetCurrent", self._context)
        self._capability = (
            attribute(self._device, "COMPUTE_CAPABILITY_MAJOR"),
            attribute(self._device, "COMPUTE_CAPABILITY_MINOR"),
        )
        self.rank_devices: list[RankDevice] = [
            RankDevice(*placed) for placed in self._exchange(tuple(self._own_device()))
        ]
        sharing = max(sum(placed.device == other.device for other in self.rank_devices) for placed in self.rank_devices)
        self.blocks = max(1, min(MOST_BLOCKS, min(placed.multiprocessors for placed in self.rank_devices) // sharing))
        self.most_flagged_bytes = min(parameters.ranks << 19, 1 << 21)
        self.takes_turns = any(placed.takes_turns for placed in self.rank_devices) and sharing > 1
        self.costs: Devices | None = self._costs()
        self._arena = self._arena_left = 0
        self._opened: list[int] = []
        self._in_host: list[mmap] = []  # mapped for as long as devices may reach it
        words = self._host_words = int(call("cuMemHostAlloc", 4096, 2))
        memmove(words, bytes(4096), 4096)
        self._outcome = cast(words, POINTER(c_int32))
        self._words = int(call("cuMemHostGetDevicePointer", words, 0))
        launching = self.number, address_of("cuLaunchKernel")
        self.native = native_module().DeviceCalls(parameters.ranks, words, *launching)
        self._functions: dict[tuple[DeviceTypes | None, bool], Any] = {}
        self._buffer = create_string_buffer(CALL.size)
        self._arguments = (c_void_p * 1)(addressof(self._buffer))
        self._stream = -1
        self.tolls = self.stop_word = self.ended_word = 0
        self._side: Any = None
        self._due = [[0] * parameters.ranks, [0] * parameters.ranks]

    def _own_device(self) -> RankDevice:
        uuid = bytes(call("cuDeviceGetUuid", self._device).bytes)
        count = attribute(self._device, "MULTIPROCESSOR_COUNT")
        who = waits(os.environ) or ("kernel" if attribute(self._device, "MPS_ENABLED") else "stream")
        refuses = f"{STAGING} asks for it" if staged(os.environ) else ""
        return RankDevice(uuid, count, os.getpid(), refuses, who == "stream")

    def _costs(self) -> Devices:
        """The costs by the device's nominal figures; between devices by their generation, as no link is measured."""
        identities = list(dict.fromkeys(placed.device for placed in self.rank_devices))
        devices = tuple(identities.index(placed.device) for placed in self.rank_devices)
        clock_Hz = 1e3 * attribute(self._device, "MEMORY_CLOCK_RATE")
        memory_Bps = MEMORY_SHARE * 2 * clock_Hz * attribute(self._device, "GLOBAL_MEMORY_BUS_WIDTH") / 8 or MEMORY_BPS
        nominal = memory_Bps, NVLINK_BPS if self._capability >= (7, 0) else PCIE_BPS, "the devices' nominal figures"
        mine = (TURN_S if self.takes_turns else LATENCY_S, LAUNCH_S, *nominal)
        return Devices(devices, *self._exchange(mine)[0])

    def _exchange(self, value: Any) -> list[Any]:
        self._shared += 1
        parameters = self._parameters
        group = parameters.bootstrap_group()._replace(key=f"{parameters.key}/device{self._shared}")
        return parameters.bootstrap.exchange(group, value)

    def take(self, nbytes: int) -> int:
        """See DeviceProcessor."""
        nbytes = -(-max(nbytes, 1) // ALIGNED) * ALIGNED
        if nbytes > ARENA_BYTES // 4:
            return self._allocated(nbytes)
        if self._arena_left < nbytes:
            self._arena, self._arena_left = self._allocated(ARENA_BYTES), ARENA_BYTES
        self._arena_left -= nbytes
        return self._arena + self._arena_left

    def _allocated(self, nbytes: int) -> int:
        call("cuCtxSetCurrent", self._context)
        address = int(call("cuMemAlloc", nbytes))
        call("cuMemsetD8", address, 0, nbytes)
        call("cuCtxSynchronize")
        return address

    def share(self, nbytes: int) -> list[int]:
        """See DeviceProcessor. Where a rank cannot map another's memory, all take memory of the host."""
        offer: tuple[bytes, int, str] = (
            b"",
            0,
            next((placed.refuses for placed in self.rank_devices if placed.refuses), ""),
        )
        if not offer[2]:
            try:
                address = self._allocated(nbytes)
                offer = bytes(call("cuIpcGetMemHandle", address).reserved), address, ""
            except CudaError as error:
                offer = b"", 0, str(error)
        offers = self._exchange(offer)
        bases, lacking = [], next((why for _, _, why in offers if why), "")
        for rank, (handle, address, _) in enumerate(offers):
            if lacking:
                break
            if self.rank_devices[rank].process == os.getpid():
                bases.append(address)
                continue
            try:
                bases.append(self._open(handle))
            except CudaError as error:
                lacking = str(error)
        if reasons := [why for why in self._exchange(lacking) if why]:
            return self._share_host(nbytes, reasons[0])
        return bases

    def _open(self, handle: bytes) -> int:
        ipc = driver().CUipcMemHandle()
        ipc.reserved = handle
        address = int(call("cuIpcOpenMemHandle", ipc, 1))
        self._opened.append(address)
        return address

    def _share_host(self, nbytes: int, why: str) -> list[int]:
        """As `share`, in the host's memory, which all devices reach."""
        parameters = self._parameters
        source = f"messages through the host's memory, because {why}"
        self.costs = self.costs and replace(self.costs, link_Bps=PCIE_BPS, source=source)
        self._shared += 1
        group = parameters.bootstrap_group()._replace(key=f"{parameters.key}/host{self._shared}")
        whole = nbytes * parameters.ranks
        fd, _ = parameters.bootstrap.share(group, whole)
        try:
            memory = mmap(fd, whole)
        finally:
            os.close(fd)
        address = addressof(c_char.from_buffer(memory))
        call("cuMemHostRegister", address, whole, 3)
        base = int(call("cuMemHostGetDevicePointer", address, 0))
        self._in_host.append(memory)
        return [base + rank * nbytes for rank in range(parameters.ranks)]

    def write(self, address: int, data: bytes) -> None:
        """See DeviceProcessor."""
        call("cuCtxSetCurrent", self._context)
        call("cuMemcpyHtoD", address, data, len(data))
        call("cuCtxSynchronize")

    def read(self, address: int, nbytes: int) -> bytes:
        """See DeviceProcessor."""
        found = create_string_buffer(nbytes)
        call("cuCtxSynchronize")
        call("cuMemcpyDtoH", addressof(found), address, nbytes)
        return found.raw

    @property
    def status(self) -> int:
        """See DeviceProcessor."""
        return self._words

    def ending(self) -> Ending:
        """See DeviceProcessor."""
        if not self._outcome[0]:
            return _FINE
        raw = cast(self._host_words, POINTER(c_char * STATUS.size)).contents.raw
        return Ending(*STATUS.unpack(raw))

    def stop(self) -> None:
        """See DeviceProcessor."""
        self.native.stopped = True
        with suppress(CudaError):  # in a context that has failed nothing waits
            call("cuCtxSetCurrent", self._context)
            self._poke(self.stop_word, 1)
            for peer in range(self._parameters.ranks) if self.takes_turns else ():
                for which in (ARRIVED, RETURNED):
                    self._poke(self._toll(peer, which), (self._due[which][peer] + (1 << 30)) & 0xFFFFFFFF)

    def look(self) -> None:
        """See DeviceProcessor."""
        with suppress(CudaError):  # in a context that has failed nothing ends
            call("cuCtxSetCurrent", self._context)
            call("cuMemcpyDtoHAsync", self._host_words + ENDED_IN_STATUS, self.ended_word, 4, self._beside())
            call("cuStreamSynchronize", self._beside())

    def awaits(self, peer: int) -> bool:
        """See DeviceProcessor."""
        call("cuCtxSetCurrent", self._context)
        return any(  # counts wrap
            (self._due[which][peer] - self._peek(self._toll(peer, which))) & 0xFFFFFFFF in range(1, 1 << 31)
            for which in (ARRIVED, RETURNED)
        )

    def _beside(self) -> Any:
        """A stream that waits for no other."""
        if self._side is None:
            self._side = call("cuStreamCreate", 1)
        return self._side

    def _toll(self, peer: int, which: int) -> int:
        return self.tolls + peer * TOLL_BYTES + 64 * which

    def _peek(self, address: int) -> int:
        word = c_uint32(0)
        call("cuMemcpyDtoHAsync", addressof(word), address, 4, self._beside())
        call("cuStreamSynchronize", self._beside())
        return int(word.value)

    def _poke(self, address: int, value: int) -> None:
        word = c_uint32(value)
        call("cuMemcpyHtoDAsync", address, addressof(word), 4, self._beside())
        call("cuStreamSynchronize", self._beside())

    def launch(self, call_bytes: bytes, plan: Launched) -> None:
        """See DeviceProcessor."""
        stream = current_stream(self.number)
        if stream != self._stream:
            self._follow(stream)
        memmove(self._buffer, call_bytes, CALL.size)
        self.native.launches += 1
        try:
            self._launch(plan, stream)
        except BaseException:
            self.native.launches -= 1
            raise

    def _launch(self, plan: Launched, stream: int) -> None:
        if not self.takes_turns:
            self._start(plan, stream)
            return
        for window in range(plan.windows):
            begin = 0
            for pause in plan.pauses:
                if pause.instruction > begin:
                    self._start(plan, stream, begin, pause.instruction, window)
                begin = pause.instruction
                for peer in pause.peers:
                    self._await_toll(stream, peer, ARRIVED, plan.blocks)
            self._start(plan, stream, begin, plan.length, window)
        for peer, messages in plan.sent.items():
            self._await_toll(stream, peer, RETURNED, messages * plan.windows * plan.blocks)

    def _start(self, plan: Launched, stream: int, begin: int | None = None, end: int = 0, window: int = 0) -> None:
        """Starts the kernel for these instructions of a window, by default for all of all windows."""
        if begin is not None:
            pack_into("=2i2q", self._buffer, PART_AT, begin, end, window, window + 1)
        function = self._functions.get((plan.types, plan.flagged)) or self._load(plan.types)[plan.flagged]
        arguments = addressof(self._arguments)
        (result,) = driver().cuLaunchKernel(function, plan.blocks, 1, 1, plan.threads, 1, 1, 0, stream, arguments, 0)
        if int(result):
            raise CudaError("cuLaunchKernel", result.name)

    def kernel(self, types: DeviceTypes | None, flagged: bool) -> int:
        """See DeviceProcessor."""
        return int(self._functions[types, flagged])

    def _await_toll(self, stream: int, peer: int, which: int, count: int) -> None:
        """Lets the stream wait until so many more messages of a peer have come, or have been given back by it."""
        due = self._due[which][peer] = (self._due[which][peer] + count) & 0xFFFFFFFF
        call("cuStreamWaitValue32", stream, self._toll(peer, which), due, 0)

    def _load(self, types: DeviceTypes | None) -> tuple[Any, Any]:
        module = call("cuModuleLoadData", compiled(types, self._capability))
        for flagged, name in enumerate((b"run_program", b"run_flagged")):
            self._functions[types, bool(flagged)] = call("cuModuleGetFunction", module, name)
        return self._functions[types, False], self._functions[types, True]

    def _follow(self, stream: int) -> None:
        """Calls of a group run one after the other, on whichever streams."""
        call("cuCtxSetCurrent", self._context)
        if self._stream >= 0:
            call("cuStreamWaitEvent", stream, self.mark(), 0)
        self._stream = self.native.stream = stream

    def mark(self) -> Any:
        """See DeviceProcessor."""
        event = call("cuEventCreate", 2)
        call("cuEventRecord", event, max(self._stream, 0))
        return event

    def reached(self, mark: Any) -> bool:
        """See DeviceProcessor."""
        (result,) = driver().cuEventQuery(mark)
        return bool(int(result) == 0)

    def await_mark(self, mark: Any) -> None:
        """See DeviceProcessor."""
        call("cuStreamWaitEvent", current_stream(self.number), mark, 0)

    def close(self) -> None:
        """See DeviceProcessor. Memory that peers may still have mapped goes with the process."""
        for address in self._opened:
            driver().cuIpcCloseMemHandle(address)
        self._opened.clear()


_FINE = Ending(0, 0, 0, 0, 0)


def staged(env: Mapping[str, str]) -> bool:
    """Whether messages pass through the host's memory: RINGTREE_DEVICE_STAGING. ValueError: for another word."""
    given = env.get(STAGING) or ""
    if given not in ("", "host"):
        raise ValueError(f"{STAGING} is {given!r}: expected host, or nothing")
    return given == "host"


def waits(env: Mapping[str, str]) -> str:
    """Who waits for peers on the same device, RINGTREE_DEVICE_WAITS: kernel or stream; "" where it is not given.
    ValueError: for another word."""
    given = env.get(WAITS) or ""
    if given not in ("", "kernel", "stream"):
        raise ValueError(f"{WAITS} is {given!r}: expected kernel or stream")
    return given


def _chosen_device() -> tuple[int, Any]:
    """The device of this thread's context, else the one that LOCAL_RANK stands for; and its primary context."""
    context = call("cuCtxGetCurrent")
    if int(context):
        number = int(call("cuCtxGetDevice"))
    else:
        count = int(call("cuDeviceGetCount"))
        if not count:
            raise RuntimeError("no CUDA device is visible here")
        number = int(os.environ.get("LOCAL_RANK", "0")) % count
    return number, call("cuDevicePrimaryCtxRetain", call("cuDeviceGet", number))
