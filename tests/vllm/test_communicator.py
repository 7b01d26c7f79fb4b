"""Each call of the communicator, by ranks that are processes."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from tests.vllm.jobs import environment

pytestmark = pytest.mark.vllm
RANKS = 3
PROGRAM = """
import sys
import torch
import torch.distributed as dist
from vllm.distributed.device_communicators.base_device_communicator import DeviceCommunicatorBase
from ringtree.vllm.communicator import GroupCommunicator

rank, ranks, port = map(int, sys.argv[1:])
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
groups = dict(cpu_group=dist.group.WORLD, device=torch.device("cpu"), device_group=dist.new_group(backend="ringtree"))
ours = GroupCommunicator(**groups, unique_name="tp:0")
theirs = DeviceCommunicatorBase(cpu_group=dist.group.WORLD, device_group=dist.group.WORLD)
for dtype in (torch.bfloat16, torch.float32, torch.int64):
    for shape in ((1,), (4, 6), (2, 3, 5), (300, 512)):
        x = torch.arange(torch.Size(shape).numel()).reshape(shape).remainder(7).add(rank).to(dtype)
        for given in (x, x.transpose(0, -1)):
            assert torch.equal(ours.all_reduce(given.clone()), theirs.all_reduce(given.clone().contiguous()))
            for dim in range(-len(shape), len(shape)):
                whole = theirs.all_gather(given.contiguous(), dim)
                assert torch.equal(ours.all_gather(given, dim), whole), (dtype, shape, dim)
                for root in range(ranks):
                    got = ours.gather(given, root, dim)
                    assert torch.equal(got, whole) if rank == root else got is None
state = {"hidden": torch.full((3, 5), rank, dtype=torch.bfloat16), "none": torch.empty(0, 4)}
state["flags"] = torch.ones(2, dtype=torch.bool)
for _ in range(3):
    if rank == 0:
        ours.send_tensor_dict(state, 2)
    if rank == 2:
        got = ours.recv_tensor_dict(0)
        assert list(got) == list(state)
        for name, x in state.items():
            assert torch.equal(got[name], x if name != "hidden" else torch.zeros_like(x)) and got[name].dtype == x.dtype
whole = torch.compile(lambda x: ours.all_gather(2 * ours.all_reduce(x + 1), 0), fullgraph=True, backend="aot_eager")
for count in (4, 5):
    x = torch.arange(count, dtype=torch.float32) + rank
    y = 2 * sum(torch.arange(count, dtype=torch.float32) + other + 1 for other in range(ranks))
    assert torch.equal(whole(x), torch.cat([y] * ranks)) and x[0] == rank
try:
    ours.send_tensor_dict({"steps": 3}, 1)
except TypeError as error:
    assert str(error) == "'steps' is a int; expected a tensor of the CPU's", error
else:
    raise AssertionError("a number was sent")
ours.destroy()
try:
    ours.all_reduce(x)
except ValueError as error:
    assert str(error) == "no group 0 is open: expected one of the 1 made so far", error
else:
    raise AssertionError("a destroyed group has served")
dist.barrier()
"""


def test_calls_are_as_by_torch_distributed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [[sys.executable, "-c", PROGRAM, str(rank), str(RANKS), str(port)] for rank in range(RANKS)]
    ranks = [
        subprocess.Popen(w, env=environment("ringtree"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for w in words
    ]
    for rank in ranks:
        shown, _ = rank.communicate(timeout=120)
        assert rank.returncode == 0, shown[-3000:]
