"""What ranks do on a GPU in the tests: importable, so that processes of their own run it."""

from __future__ import annotations

import json
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from ringtree.errors import PeerDied
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.device.element_types import types_of
from ringtree.runtime.types import OPS, Dtype, supported

TYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "float8_e4m3fn",
    "float8_e5m2",
)
"""Element types that torch has arithmetic for."""


def torch_on_gpu() -> Any:
    """torch, with the only GPU chosen: all ranks share it."""
    import torch

    torch.cuda.set_device(0)
    return torch


def numbers(torch: Any, rank: int, count: int, label: str) -> Any:
    """Small whole numbers of a type, on the host: another row for each rank."""
    drawn = torch.randint(0, 4, (count,), generator=torch.Generator().manual_seed(rank + count))
    kind = getattr(torch, label)
    return drawn.float().to(kind) if label.startswith("float8") else drawn.to(kind)


def differing(torch: Any, found: Any, wanted: Any) -> int:
    """The number of bytes that are not the same."""
    here = found.cpu().contiguous().view(torch.uint8), wanted.contiguous().view(torch.uint8)
    return int((here[0] != here[1]).sum())


def compare(comm: Communicator, calls: list[tuple[str, str, str, int, str | None]]) -> list[str]:
    """Makes each call, (collective, type, operation, elements, algorithm), on the host and on the device; returns those
    whose results are not the same bits."""
    torch = torch_on_gpu()
    wrong = []
    for collective, label, op, count, algorithm in calls:
        x = numbers(torch, comm.rank, count, label)
        given: tuple[Any, ...] = (op,) if op else ()
        method = getattr(comm, collective)
        wanted = method(x, *given, algorithm=algorithm)
        found = method(x.cuda(), *given, algorithm=algorithm)
        if wanted is not None and (bad := differing(torch, found, wanted)):
            wrong.append(f"rank {comm.rank} of {comm.size}: {collective} {label} {op} {count} {algorithm}: {bad} bytes")
    return wrong


def compile_ahead(calls: list[tuple[str, str, str, int, str | None]]) -> None:
    """Compiles what the calls reduce with by all cores: one after the other, a hundred take minutes."""
    kinds = sorted({(label, op) for _, label, op, _, _ in calls})
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        list(pool.map(_compile, kinds))


def _compile(kind: tuple[str, str]) -> None:
    from ringtree.runtime.engines.device.compiling import compiled
    from ringtree.runtime.engines.device.driver import attribute, call

    device = call("cuDeviceGet", 0)
    capability = attribute(device, "COMPUTE_CAPABILITY_MAJOR"), attribute(device, "COMPUTE_CAPABILITY_MINOR")
    compiled(types_of(Dtype[kind[0].upper()], kind[1]), capability)


def every_type(collective: str, ranks: int) -> list[tuple[str, str, str, int, str | None]]:
    """Calls of a collective with every type and reduction."""
    kinds = [(label, op) for label in TYPES for op in OPS if supported(Dtype[label.upper()], op)]
    return [(collective, label, op, 1003 * ranks, None) for label, op in kinds]


def in_symmetric_memory(comm: Communicator, count: int) -> list[str]:
    """all_reduce in and out of place, of memory that peers read where it lies."""
    torch = torch_on_gpu()
    x, y = (comm.empty(count, np.float32, device="cuda") for _ in range(2))
    wanted = sum(numbers(torch, rank, count, "float32") for rank in range(comm.size))
    wrong = []
    for turn in range(3):
        x.copy_(numbers(torch, comm.rank, count, "float32"))
        comm.all_reduce(x, out=y)
        comm.all_reduce(x, out=x)
        wrong += [f"{turn}: {name}" for name, z in (("out", y), ("in", x)) if differing(torch, z, wanted)]
    return wrong


def on_streams(comm: Communicator, count: int) -> list[str]:
    """Calls on streams of the caller's own, after work there, and asynchronous ones."""
    torch = torch_on_gpu()
    wrong = []
    for stream in (torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.default_stream()):
        with torch.cuda.stream(stream):
            x = torch.zeros(count, device="cuda")
            torch.cuda._sleep(2_000_000)
            x += comm.rank + 1
            work = comm.all_reduce(x, async_op=True)
            y = comm.all_reduce(x)
            work.wait()
            wanted = comm.size * (comm.size + 1) / 2
            if not bool((y == wanted).all()) or not bool((work.result() == wanted).all()):
                wrong.append(f"{stream}: {y[:3].tolist()}, {work.result()[:3].tolist()}")
    return wrong


def after_a_death(comm: Communicator, folder: str) -> None:
    """The last rank ends while the others wait for it on the device. They write to the folder: their error, the seconds
    until it is raised, and a sum that the device has computed after it."""
    torch = torch_on_gpu()
    x = torch.ones(1 << 20, device="cuda")
    comm.all_reduce(x)
    torch.cuda.synchronize()
    if comm.rank == comm.size - 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    begun_s = time.monotonic()
    found: list[Any] = ["no error", 0.0, 0]
    try:
        for _ in range(3):
            comm.all_reduce(x)
            torch.cuda.synchronize()
    except PeerDied as error:
        found = [str(error), time.monotonic() - begun_s, int(torch.ones(1000, device="cuda").sum())]
    Path(folder, str(comm.rank)).write_text(json.dumps(found))
