"""ringtree in the place of Gloo: programs that ask for Gloo, run on ringtree."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.torch_backend.conftest import Worlds, kept

pytestmark = pytest.mark.torch
REPLACING = {"RINGTREE_REPLACES": "gloo"}


@pytest.fixture(scope="module")
def replaced() -> Iterator[Worlds]:
    yield from kept(REPLACING)


def serving(group: Any = None) -> str:
    """The class that serves a group's tensors on the CPU."""
    import torch
    import torch.distributed as dist

    return type((group or dist.group.WORLD)._get_backend(torch.device("cpu"))).__name__


def names() -> list[Any]:
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    everyone = [*range(dist.get_world_size())]
    groups = [None, dist.new_group(everyone), dist.new_group(everyone, backend="gloo")]
    groups += [init_device_mesh("cpu", (1, len(everyone))).get_group(1)]
    for group in groups:
        x = torch.full((3,), float(dist.get_rank()))
        dist.all_reduce(x, group=group)
        assert x.tolist() == [sum(everyone)] * 3
    dist.monitored_barrier()
    return [(dist.get_backend(group), serving(group)) for group in groups]


def test_groups_of_gloo_are_ours(replaced: Worlds) -> None:
    for found in replaced(2, "gloo").run(names):
        assert found == [("gloo", "StandIn")] * 4


def hurried() -> str:
    import torch
    import torch.distributed as dist

    group = dist.new_group()
    if dist.get_rank() == 1:
        dist.recv(torch.zeros(1), 0)
        return ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # "only supported for either nccl or gloo"
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=0.2), group)
    with pytest.raises(RuntimeError) as raised:
        dist.all_reduce(torch.ones(1), group=group)
    dist.send(torch.zeros(1), 1)
    return str(raised.value)


def test_torchs_way_to_set_a_timeout_is_ours(replaced: Worlds) -> None:
    assert "rank 0 waited 0.2 s for rank 1" in replaced(2, "gloo").run(hurried)[0]


def other_groups() -> list[Any]:
    import torch.distributed as dist

    ours, theirs = dist.new_group(), dist.new_group(backend="gloo")
    return [(dist.get_backend(group), serving(group)) for group in (None, ours, theirs)]


def test_a_group_of_gloo_beside_one_of_ours(replaced: Worlds, worlds: Worlds) -> None:
    for where, theirs in ((replaced, "StandIn"), (worlds, "ProcessGroupGloo")):
        for found in where(2).run(other_groups):
            assert found == [("ringtree", "ProcessGroup")] * 2 + [("gloo", theirs)]


def other_devices() -> tuple[str, str, list[str]]:
    import torch
    import torch.distributed as dist
    from torch.testing._internal.distributed import fake_pg  # noqa: F401  # a backend that does nothing

    group = dist.new_group(backend="cpu:gloo,meta:fake")

    class Elsewhere(torch.Tensor):
        """One of a device that this machine lacks."""

        @classmethod
        def __torch_dispatch__(cls, *_: Any) -> Any:
            raise NotImplementedError

    x, elsewhere = torch.ones(3), torch.Tensor._make_wrapper_subclass(Elsewhere, (3,), device="xpu")
    dist.all_reduce(x, group=group)
    dist.all_reduce(torch.ones(3, device="meta"), group=group)
    assert x.tolist() == [dist.get_world_size()] * 3 and serving(group) == "StandIn"
    config = dist.get_backend_config(group)
    dist.destroy_process_group(group)
    refusals = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for other in (None, None, dist.new_group()):
            with pytest.raises(RuntimeError) as refusal:
                dist.all_reduce(elsewhere, group=other)
            refusals.append(str(refusal.value))
    assert len(set(refusals)) == 1
    return config, refusals[0], [str(each.message) for each in warned]


def test_tensors_of_other_devices_go_to_who_was_asked_for(replaced: Worlds) -> None:
    for config, refusal, warned in replaced(2, "gloo").run(other_devices):
        assert config == "cpu:gloo,meta:fake"
        assert "ProcessGroupGloo" in refusal  # the real one's
        assert len(warned) == 1 and "calls with tensors on xpu go to the real one" in warned[0]


def asked_by_one() -> list[str]:
    """What torch does to the groups of a GPU, of which one rank may ask alone."""
    import torch.distributed as dist

    dist.new_group()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        if dist.get_rank() == 0:
            dist.distributed_c10d._add_ephemeral_timeout_for_all_pgs(timedelta(seconds=1))
    return [str(each.message) for each in warned]


def test_one_rank_may_ask_for_the_backend_of_another_device(replaced: Worlds) -> None:
    assert replaced(2, "gloo").run(asked_by_one) == [[], []]


def ddp() -> dict[str, Any]:
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    for step in range(2):
        model(torch.full((1, 4), float(dist.get_rank() + step))).sum().backward()
    (gradient,) = [p.grad for name, p in model.module.named_parameters() if name == "weight"]
    return model._get_ddp_logging_data() | {"gradient": gradient.tolist()}


def test_ddp_s_log_has_the_name_that_was_asked_for(replaced: Worlds) -> None:
    """torch's C++ takes the group for Gloo's class there, and asks it for its threads."""
    for found in replaced(2, "gloo").run(ddp):
        assert (found["backend_name"], found["gloo_num_threads"]) == ("gloo", 2)
        assert found["gradient"] == [[0.5 + 1.5] * 4] * 2


def late(rank: int) -> str:
    import torch.distributed as dist

    dist.barrier()  # the others come within the timeout, however late they were started
    if dist.get_rank() == rank:
        return ""
    with pytest.raises(Exception) as missed:
        dist.monitored_barrier(timeout=timedelta(seconds=0.5))
    return str(missed.value)


def test_monitored_barrier_names_who_did_not_come(replaced: Worlds) -> None:
    first, _, last = replaced(3, "gloo").run(late, 1)
    assert "Rank 1 failed to pass monitoredBarrier in 500 ms" in first and "rank 1 did not come" in last


PROGRAM = """
import logging
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(2)
dist.all_reduce(x, group=dist.new_group())
dist.barrier()
print(dist.get_backend(), type(dist.group.WORLD).__name__, x.tolist())
"""


def started(tmp_path: Path, ranks: int, *options: str) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    words = [sys.executable, "-m", "ringtree.cli", "run", "-n", str(ranks), *options, str(program)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


def test_ringtree_run_replaces(tmp_path: Path) -> None:
    """One line of INFO on each rank says so."""
    shown = started(tmp_path, 2, "--replace", "gloo")
    lines = shown.stdout.splitlines() + shown.stderr.splitlines()
    assert shown.returncode == 0, shown.stderr
    assert sorted(line for line in lines if "gloo StandIn" in line) == [
        f"[{rank}] gloo StandIn [2.0, 2.0]" for rank in range(2)
    ]
    assert sum("INFO ringtree" in line and "in the place of gloo (RINGTREE_REPLACES)" in line for line in lines) == 2


def test_without_being_asked_nothing_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RINGTREE_REPLACES", raising=False)
    assert "gloo ProcessGroup [1.0, 1.0]" in started(tmp_path, 1).stdout


BOUND = """
import torch, torch.distributed as dist
for device in "cpu", "cpu:0":
    try:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1, device_id=torch.device(device))
    except ValueError as error:
        print(error)
"""


def test_a_device_that_gloo_refuses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    for names in "", "gloo":
        monkeypatch.setenv("RINGTREE_REPLACES", names)
        done = subprocess.run([sys.executable, "-c", BOUND], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        shown.append(done.stdout)
    assert shown[0] == shown[1] and shown[0].count("must be an accelerator with an index") == 2


@pytest.mark.parametrize("names", ["nccl", "gloo,mpi"])
def test_other_backends_are_refused(names: str) -> None:
    from ringtree.torch_backend import replace
    from ringtree.torch_backend.replacing import replace_all

    with pytest.raises(ValueError, match=f"RINGTREE_REPLACES is '{names}': ringtree takes the place of \"gloo\" only"):
        replace_all(names)
    with pytest.raises(ValueError, match="takes the place of \"gloo\" only; got 'nccl'"):
        replace("nccl")
