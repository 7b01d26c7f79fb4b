"""torch.distributed on ringtree beside Gloo: calls, and the communication of training steps, in one run.

    python benchmarks/torch_beside_gloo.py                      2 and 4 ranks, some two minutes
    python benchmarks/torch_beside_gloo.py -n 2 ddp fsdp2       rows whose name has that in it
    python benchmarks/torch_beside_gloo.py --json FILE          write the figures, with machine and versions

Every process has a group of either backend, and they take turns: a turn is some 20 ms of calls on the one,
then on the other, from a common start to the end of the slowest rank. Shown are medians over turns, and the median of
each turn's own ratio. The first results of both are compared.

The *communication of a step* is how much longer it takes than the same step in a group that does not communicate,
whose calls return at once (`silent`); it takes turns with the two. So waiting, copies, threads that take
cores from the computation, and the backend's own code are communication; the wrapper's code around the calls is none.
What overlaps with computation for free is none either. The ratio is of the medians of these differences. A step is
forward and backward, gradients included; the model a transformer of 6 layers, width 256 (4.7 million parameters in
float32), 128 tokens a rank.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

TURN_S = 20e-3
TURNS, FEWEST_TURNS = 21, 7
ROW_S = 10.0
"""A row ends when it has taken so long, if it has had the fewest turns."""
BACKENDS = ("gloo", "ringtree", "silent")
Call = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """What is measured. `make(group)` gives the call, whose result is compared. `step`: its communication is shown."""

    name: str
    make: Callable[[Any], Call]
    goal: float | None = None
    step: bool = False


def all_reduce(nbytes: int) -> Callable[[Any], Call]:
    def make(group: Any) -> Call:
        import torch
        import torch.distributed as dist

        x = torch.ones(nbytes // 4)

        def call() -> Any:
            dist.all_reduce(x, dist.ReduceOp.AVG if nbytes > 8 else dist.ReduceOp.MAX, group=group)
            return x

        return call

    return make


def all_to_all(group: Any) -> Call:
    import torch
    import torch.distributed as dist

    x, y = torch.ones(1 << 18), torch.empty(1 << 18)

    def call() -> Any:
        dist.all_to_all_single(y, x, group=group)
        return y

    return call


def objects(group: Any) -> Call:
    import torch
    import torch.distributed as dist

    def call() -> Any:
        gathered: list[Any] = [None] * group.size()
        dist.all_gather_object(gathered, {"rank": group.rank(), "loss": 0.5}, group=group)
        return torch.tensor([each["rank"] for each in gathered])

    return call


def there_and_back(nbytes: int) -> Callable[[Any], Call]:
    """A message between two ranks, and back: of each pair, the lower one begins."""

    def make(group: Any) -> Call:
        import torch
        import torch.distributed as dist

        x, peer = torch.ones(nbytes // 4), group.rank() ^ 1
        both = (dist.send, dist.recv) if group.rank() < peer else (dist.recv, dist.send)

        def call() -> Any:
            for each in both:
                each(x, group=group, group_dst=peer) if each is dist.send else each(x, group=group, group_src=peer)
            return x

        return call

    return make


def pipeline(group: Any) -> Call:
    """1F1B over all ranks, a stage of two layers each, 8 microbatches of 16 KiB."""
    import torch
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    torch.manual_seed(0)
    stage_model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256))
    rank, ranks = group.rank(), group.size()
    stage = PipelineStage(stage_model, rank, ranks, torch.device("cpu"), group=group)
    schedule = Schedule1F1B(stage, n_microbatches=8, loss_fn=torch.nn.functional.mse_loss)
    x = torch.ones(128, 256)

    def step() -> Any:
        stage_model.zero_grad()
        if rank == 0:
            schedule.step(x)
        elif rank == ranks - 1:
            schedule.step(target=x)
        else:
            schedule.step()
        return stage_model[0].weight.grad

    return step


def sub_group(group: Any) -> Call:
    """A group of all ranks, made, used once and destroyed."""
    import torch
    import torch.distributed as dist

    x = torch.ones(2)

    def call() -> Any:
        made = dist.new_group(backend=group.name())
        dist.all_reduce(x, dist.ReduceOp.MAX, group=made)
        dist.destroy_process_group(made)
        return x

    return call


def transformer() -> Any:
    import torch

    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)


def stepping(model: Any) -> Call:
    import torch

    x = torch.randn(2, 64, 256)

    def step() -> Any:
        model.zero_grad()
        model(x).square().mean().backward()
        gradient = next(model.parameters()).grad
        return getattr(gradient, "_local_tensor", gradient)

    return step


def ddp(group: Any) -> Call:
    from torch.nn.parallel import DistributedDataParallel

    return stepping(DistributedDataParallel(transformer(), process_group=group))


def fsdp2(group: Any, from_group: bool = False) -> Call:
    """`from_group`: its buffers are of the group's memory, where the backend has such."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    model, mesh = transformer(), DeviceMesh.from_group(group, "cpu")
    for module in (*model.layers, model):
        fully_shard(module, mesh=mesh)
        if from_group and hasattr(group, "allocate_tensor"):
            module.set_allocate_memory_from_process_group_for_comm(True)
    return stepping(model)


def silent(options: Any, _: Any) -> Any:
    """A process group whose calls return at once, and leave the caller with what it has."""
    import torch
    import torch.distributed as dist

    def done(tensors: Any) -> Any:
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result(tensors)
        return torch._C._distributed_c10d._create_work_from_future(future)

    class Silent(dist.ProcessGroup):  # type: ignore[misc]
        group_name, group_desc = "", ""

        def allreduce(self, tensors: Any, opts: Any = None) -> Any:
            return done(tensors)

        broadcast = allreduce

        def allgather(self, outputs: Any, tensors: Any, opts: Any = None) -> Any:
            for output in outputs[0]:
                output.copy_(tensors[0])
            return done(outputs[0])

        def all_gather_single(self, output: Any, x: Any, opts: Any = None) -> Any:
            return done([output])

        _allgather_base = _reduce_scatter_base = reduce_scatter_single = all_gather_single

        def _get_backend(self, device: Any) -> Any:
            return self

        def _set_group_name(self, name: str) -> None:
            self.group_name = name

        def _set_group_desc(self, description: str) -> None:
            self.group_desc = description

        def getBackendName(self) -> str:
            return "silent"

        def barrier(self, opts: Any = None) -> Any:
            return done([])

    return Silent(options.group_rank, options.group_size)


ROWS = [
    Row("all_reduce 8 B", all_reduce(8), 0.15),
    Row("all_reduce 64 KiB", all_reduce(1 << 16)),
    Row("all_reduce 25 MB", all_reduce(25_000_000), 0.35),
    Row("all_to_all_single 1 MiB", all_to_all),
    Row("all_gather_object", objects),
    Row("send, recv 8 B", there_and_back(8)),
    Row("send, recv 1 MiB", there_and_back(1 << 20)),
    Row("pipeline step (1F1B)", pipeline),
    Row("new_group, destroyed", sub_group),
    Row("ddp step", ddp, 0.5, step=True),
    Row("fsdp2 step", fsdp2, 0.5, step=True),
    Row("fsdp2 step, in place", partial(fsdp2, from_group=True), 0.5, step=True),
]


# -- on every rank


def measured(row: Row, groups: dict[str, Any]) -> dict[str, list[float]]:
    """By backend, seconds of a call by the slowest rank, one a turn."""
    calls = {name: row.make(group) for name, group in groups.items() if row.step or name != "silent"}
    compare(row, {name: call() for name, call in calls.items()})
    slowest = groups["gloo"]
    many = {}
    for name, call in calls.items():
        timed(call, 3, slowest)
        many[name] = max(1, min(int(TURN_S / timed(call, 3, slowest)), 2000))
    found: dict[str, list[float]] = {name: [] for name in calls}
    spent_s = 0.0  # the same on all ranks, as all times are
    for turn in range(TURNS):
        order = list(calls)[turn % len(calls) :] + list(calls)[: turn % len(calls)]
        for name in order:
            found[name].append(timed(calls[name], many[name], slowest))
            spent_s += found[name][-1] * many[name]
        if spent_s > ROW_S and turn + 1 >= FEWEST_TURNS:
            break
    return found


def compare(row: Row, results: dict[str, Any]) -> None:
    import torch

    if not torch.allclose(results["gloo"], results["ringtree"], rtol=1e-3, atol=1e-6):
        raise AssertionError(f"{row.name}: the backends' results differ")


def timed(call: Call, many: int, group: Any) -> float:
    """Seconds of a call by the slowest rank. `group` is where they start and exchange times."""
    import torch
    import torch.distributed as dist

    dist.barrier(group)
    started = time.perf_counter()
    for _ in range(many):
        call()
    seconds = torch.tensor([(time.perf_counter() - started) / many], dtype=torch.float64)
    dist.all_reduce(seconds, dist.ReduceOp.MAX, group=group)
    return float(seconds[0])


def rank_main(rank: int, ranks: int, file: str, names: list[str], results: Any) -> None:
    import torch
    import torch.distributed as dist

    import ringtree.torch_backend  # noqa: F401  # what torch does by itself where ringtree is installed

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # whatever lies in memory that nobody has filled
    store = dist.FileStore(file, ranks)
    dist.Backend.register_backend("silent", silent, extended_api=True, devices=["cpu"])
    dist.init_process_group("ringtree", store=store, rank=rank, world_size=ranks, timeout=timedelta(seconds=60))
    groups = {name: dist.new_group(backend=name) for name in BACKENDS}
    for row in ROWS:
        if row.name in names:
            found = measured(row, groups)
            if rank == 0:
                results.put((row.name, found))
    dist.barrier()
    dist.destroy_process_group()


# -- on the one that asks


def run(ranks: int, names: list[str]) -> dict[str, dict[str, list[float]]]:
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "store")
        processes = [context.Process(target=rank_main, args=(r, ranks, file, names, results)) for r in range(ranks)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit(f"{ranks} ranks: one ended with an error")
    return dict(results.get() for _ in names)


def figures(row: Row, found: dict[str, list[float]]) -> dict[str, Any]:
    """What the record keeps: seconds, as medians, and the ratio."""
    kept: dict[str, Any] = {f"{name}_s": median(times) for name, times in found.items()}
    if row.step:
        for name in ("gloo", "ringtree"):
            extra = [time - alone for time, alone in zip(found[name], found["silent"], strict=True)]
            kept[f"{name}_communication_s"] = median(extra)
        kept["ratio"] = kept["ringtree_communication_s"] / kept["gloo_communication_s"]
    else:
        kept["ratio"] = median(ours / theirs for ours, theirs in zip(found["ringtree"], found["gloo"], strict=True))
    return {**{k: float(f"{v:.4g}") for k, v in kept.items()}, "goal": row.goal}


HEAD = """| µs | ranks | Gloo | ringtree | ratio | goal | step: alone | on Gloo | on ringtree |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"""


def line(name: str, ranks: int, kept: dict[str, Any]) -> str:
    """A row of the table. Of a step its communication, and behind that the steps themselves."""
    of = "_communication_s" if "silent_s" in kept else "_s"
    cells = [f"{kept[backend + of] * 1e6:,.1f}" for backend in ("gloo", "ringtree")]
    cells += [f"{kept['ratio']:.3f}", f"{kept['goal']:.2f}" if kept["goal"] else ""]
    cells += [f"{kept[b + '_s'] * 1e6:,.0f}" if "silent_s" in kept else "" for b in ("silent", "gloo", "ringtree")]
    return f"| {name} | {ranks} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="rows, by a part of their name (default all)")
    parser.add_argument("-n", "--ranks", default="2,4", help="numbers of ranks (default 2,4)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures, with machine and versions")
    args = parser.parse_args()
    names = [row.name for row in ROWS if not args.rows or any(part in row.name for part in args.rows)]
    print(HEAD)
    record = []
    for ranks in map(int, args.ranks.split(",")):
        found = run(ranks, names)
        for row in ROWS:
            if row.name in found:
                kept = figures(row, found[row.name])
                print(line(row.name, ranks, kept), flush=True)
                record.append({"name": row.name, "ranks": ranks, **kept})
    if args.json:
        import torch

        from ringtree.bench.machine import describe

        about = {"machine": describe(), "torch": torch.__version__, "turns": TURNS}
        args.json.write_text(json.dumps({**about, "rows": record}, indent=1) + "\n")


if __name__ == "__main__":
    main()
