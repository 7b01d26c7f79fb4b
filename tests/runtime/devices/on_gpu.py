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
from ringtree.runtime.engines.device.lanes import OwnLayout
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


SIZES = (1, 3, 900, 7000, 10_000, 70_000, 300_000, 1_500_000)
"""Elements of mixed calls: with empty chunks, small, of one block and of more, staged and cut."""


def mixed(comm: Communicator, seed: int, calls: int) -> list[str]:
    """Calls one behind the other, of several collectives and sizes, which no rank waits for; between them each rank's
    device is now and then busy with other work. Results are looked at in the end."""
    torch = torch_on_gpu()
    drawn, own = np.random.default_rng(seed), np.random.default_rng(seed + 1 + comm.rank)
    found = list[tuple[str, Any, Any]]()
    for _ in range(calls):
        collective = str(drawn.choice(["all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all"]))
        count = int(drawn.choice(SIZES))
        whole = -(-count // comm.size) * comm.size if collective in ("reduce_scatter", "all_to_all") else count
        rows = [(torch.arange(whole) + r * 3) % 8 for r in range(comm.size)]
        root = int(drawn.integers(comm.size))
        x = rows[comm.rank].float().cuda()
        if own.random() < 0.2:
            torch.cuda._sleep(int(own.integers(200_000)))
        method = getattr(comm, collective)
        y = method(x, root) if collective == "broadcast" else method(x)
        found.append((f"{collective} of {whole}", y, _expected(torch, collective, rows, comm.rank, root)))
    return [f"rank {comm.rank}: {name}" for name, y, wanted in found if differing(torch, y.ravel(), wanted.float())]


def _expected(torch: Any, collective: str, rows: list[Any], rank: int, root: int) -> Any:
    if collective == "broadcast":
        return rows[root]
    if collective == "all_gather":
        return torch.cat(rows)
    if collective == "all_to_all":
        return torch.cat([row.chunk(len(rows))[rank] for row in rows])
    total = sum(rows[1:], rows[0])
    return total if collective == "all_reduce" else total.chunk(len(rows))[rank]


def from_number(comm: Communicator, number: int, renewed: int) -> list[str]:
    """Small calls and others, of which the first follows `number` messages in all lanes."""
    torch = torch_on_gpu()
    x = torch.arange(1000, device="cuda").float()
    comm.all_reduce(x)
    torch.cuda.synchronize()
    comm.barrier()
    endpoint: Any = comm.beside("cuda")._endpoint
    lanes = endpoint._lanes
    counters = np.zeros((lanes.blocks * comm.size, 8), np.uint32)
    counters[:, [0, 1, 2, 4]], counters[:, 5] = number, renewed
    credits = np.zeros((lanes.blocks * comm.size, 4), np.uint32)
    credits[:, 0] = number
    endpoint._processor.write(endpoint._counters_at, counters.tobytes())
    endpoint._processor.write(endpoint._regions[0][comm.rank] + lanes.credits, credits.tobytes())
    until = np.full((lanes.blocks, lanes.slots, comm.size), number, np.uint32)
    endpoint._processor.write(endpoint._own + OwnLayout(lanes).slot_until, until.tobytes())
    comm.barrier()
    wrong = []
    for turn in range(40):
        y = (torch.arange((1000, 3, 3_000_000, 2500)[turn % 4]) * turn % 1000).float()
        if differing(torch, comm.all_reduce(y.cuda()), y * comm.size):
            wrong.append(f"rank {comm.rank}: {turn}")
    return wrong


def with_cupy(comm: Communicator) -> list[str]:
    """CuPy's arrays, without torch: on its streams, out of and in place, and in memory that peers read."""
    import cupy

    wrong = []
    streams = [cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)]
    for stream in streams:
        with stream:
            for count in (5, 1000, 1 << 20):
                x = cupy.arange(count, dtype=np.float32) + comm.rank
                wanted = np.arange(count, dtype=np.float32) * comm.size + sum(range(comm.size))
                y = comm.all_reduce(x)
                z = comm.empty(count, np.float32, device="cuda")
                z[...] = x
                comm.all_reduce(z, out=z)
                gathered = comm.all_gather(x[:5])
                named = (("private", y, wanted), ("symmetric", z, wanted))
                wrong += [f"{n} {count}" for n, found, w in named if not np.array_equal(cupy.asnumpy(found), w)]
                rows = [np.arange(5, dtype=np.float32) + r for r in range(comm.size)]
                flat = cupy.asnumpy(gathered).ravel()
                wrong += [f"gathered {count}"] * (not np.array_equal(flat, np.concatenate(rows)))
                wrong += [f"a {type(y)}"] * (type(y) is not cupy.ndarray or type(z) is not cupy.ndarray)
    return wrong


def with_jax(comm: Communicator) -> list[str]:
    """JAX's arrays, without torch."""
    import os

    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # several processes share the device
    import jax
    import jax.numpy as jnp

    wrong = []
    for count in (5, 1000, 1 << 20):
        x = jnp.arange(count, dtype=jnp.float32) + comm.rank
        y = comm.all_reduce(jnp.sin(x) * 0 + x)
        wanted = np.arange(count, dtype=np.float32) * comm.size + sum(range(comm.size))
        wrong += [f"{count}: {y}"] * (not np.array_equal(np.asarray(y + 0), wanted))
        work = comm.all_reduce((x % 8).astype(jnp.bfloat16), async_op=True)
        short = np.asarray(x % 8) * 0 + sum((np.arange(count) + r) % 8 for r in range(comm.size))
        wrong += [f"{count}: {work.result()}"] * (
            not np.array_equal(np.asarray(work.result().astype(jnp.float32)), short)
        )
        rows = comm.all_gather(x)
        wrong += [f"{count}: gathered {rows}"] * (
            not np.array_equal(np.asarray(rows)[-1], wanted * 0 + np.arange(count) + comm.size - 1)
        )
        wrong += [f"a {type(y)}"] * (not isinstance(y, jax.Array))
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
