"""What ranks of the nccl engine do on GPUs, and what must come of it. Without pytest, for machines that have none:

    python -m tests.runtime.nccl.on_gpus

With one GPU: NCCL of one rank, its transfers to itself included; and two ranks that share the GPU, by host memory. With
more, NCCL between them too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import traceback
from typing import Any

from ringtree import Communicator, spawn
from ringtree.algorithms import serving
from ringtree.ir.collective import COLLECTIVES

COUNT = 1003
DTYPES = ("float32", "bfloat16", "int64", "uint8")
CALLS = [name for name in COLLECTIVES if name != "barrier"]


def expected(collective: str, xs: list[Any], rank: int, root: int) -> Any:
    """The output of `rank` when rank r's input is xs[r]; None where it has none."""
    import torch

    total = torch.stack(xs).sum(0)
    block = slice(rank * COUNT, (rank + 1) * COUNT)
    if collective in ("all_reduce", "reduce"):
        return total if collective == "all_reduce" or rank == root else None
    if collective == "reduce_scatter":
        return total[block]
    if collective in ("all_gather", "gather"):
        return torch.stack(xs) if collective == "all_gather" or rank == root else None
    if collective == "broadcast":
        return xs[root]
    if collective == "scatter":
        return xs[root][block]
    if collective == "all_to_all":
        return torch.cat([x[block] for x in xs])
    before = xs[: rank + (collective == "scan")]
    return torch.stack(before).sum(0) if before else None


def sweep(comm: Communicator, dtypes: tuple[str, ...] = DTYPES) -> list[str]:
    """Every collective by the carrier itself and by every algorithm; what was wrong, if anything."""
    import torch

    torch.cuda.set_device(comm.rank % torch.cuda.device_count())
    n, root, wrong = comm.size, comm.size - 1, []
    for collective in CALLS:
        rooted = {"root": root} if COLLECTIVES[collective].rooted else {}
        for dtype in dtypes:
            for algorithm in (None, *serving(collective)):
                xs = [(torch.arange(COUNT * n) % 5 + r).to(getattr(torch, dtype)) for r in range(n)]
                x = xs[comm.rank].cuda()
                given = {**rooted, "algorithm": algorithm}
                if collective == "scatter":
                    out = torch.empty(COUNT, dtype=x.dtype, device="cuda")
                    found = comm.scatter(x if comm.rank == root else None, out=out, **given)
                else:
                    found = getattr(comm, collective)(x, **given)
                want = expected(collective, xs, comm.rank, root)
                if (found is None) != (want is None) or (want is not None and not torch.equal(found.cpu(), want)):
                    wrong.append(f"{collective} by {algorithm} of {dtype}, rank {comm.rank}: {found}, not {want}")
    return wrong


def to_itself(comm: Communicator) -> list[str]:
    """NCCL's grouped transfers of one rank with itself, in order."""
    import torch

    carrier = comm._endpoint.carrier
    given = [torch.full((1 << 20,), k, dtype=torch.uint8, device="cuda") for k in (1, 2)]
    gotten = [torch.zeros_like(x) for x in given]
    carrier.exchange([(0, x) for x in given], [(0, y) for y in gotten])
    return [] if all(map(torch.equal, given, gotten)) else ["what a rank sent itself came otherwise"]


def asynchronous(comm: Communicator) -> list[str]:
    """A call that begins before its input is computed, and is waited for by the stream."""
    import torch

    torch.cuda.set_device(comm.rank % torch.cuda.device_count())
    a, x = torch.ones(2048, 2048, device="cuda") / 2048, torch.ones(2048, 2048, device="cuda")
    for _ in range(20):
        x = x @ a
    work = comm.all_reduce(x, async_op=True)
    work.wait()
    found = float(work.result().mean())
    return [] if abs(found - comm.size) < 1e-2 else [f"the mean is {found}, not {comm.size}"]


def timed(comm: Communicator) -> list[str]:
    """Prints the times of calls; finds nothing wrong."""
    import torch

    torch.cuda.set_device(comm.rank % torch.cuda.device_count())
    for nbytes in (4, 1 << 20, 1 << 26):
        x = torch.ones(nbytes // 4, device="cuda")
        for algorithm in (None, "ring"):
            comm.all_reduce(x, out=x, algorithm=algorithm)
            torch.cuda.synchronize()
            begun_s = time.perf_counter()
            for _ in range(20):
                comm.all_reduce(x, out=x, algorithm=algorithm)
            launched_s = time.perf_counter()
            torch.cuda.synchronize()
            each = [(at - begun_s) / 20 * 1e6 for at in (launched_s, time.perf_counter())]
            if comm.rank == 0:
                how = comm.chosen("all_reduce", nbytes // 4, algorithm=algorithm).part.program.name
                print(
                    f"  all_reduce of {nbytes} bytes by {how}: {each[0]:.0f} us to begin, {each[1]:.0f} us", flush=True
                )
    return []


def main() -> int:
    """Makes all checks and prints a line for each; the number that failed."""
    count = "import torch; print(torch.cuda.device_count())"  # elsewhere: a process that has asked CUDA cannot fork
    gpus = int(subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, check=True).stdout)
    if not gpus:
        print("skipped: torch sees no GPU")
        return 0
    plans: list[tuple[str, int, Any]] = [("nccl", 1, sweep), ("nccl", 1, to_itself), ("nccl", 1, asynchronous)]
    plans += [("nccl", 1, timed), ("staged", 2, sweep), ("staged", 2, asynchronous), ("staged", 2, timed)]
    if gpus > 1:
        plans += [("nccl", min(gpus, 8), act) for act in (sweep, asynchronous, timed)]
    failed = 0
    for carrier, ranks, act in plans:
        os.environ["RINGTREE_NCCL_CARRIER"] = carrier
        name = f"{act.__name__} of {ranks} over {carrier}"
        try:
            wrong = [line for lines in spawn(act, ranks, engine="nccl", timeout_s=120) for line in lines]
        except Exception:  # noqa: BLE001  # printed, and the next one is made
            wrong = [traceback.format_exc()]
        failed += bool(wrong)
        print("\n".join([f"FAILED {name}", *wrong[:20]]) if wrong else f"passed {name}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
