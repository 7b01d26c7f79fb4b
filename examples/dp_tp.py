"""Data and tensor parallel training over the backend "ringtree": a mesh of ranks with two axes.

torchrun --nproc-per-node 4 examples/dp_tp.py
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import cross_entropy

dist.init_process_group("ringtree")
mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("dp", "tp"))
copy, copies = mesh.get_local_rank("dp"), mesh["dp"].size()

torch.manual_seed(0)  # the same on every rank; those of one tensor parallel group take the same rows
rows, teacher = torch.randn(1024, 32), torch.randn(32, 10)
labels = (rows @ teacher).argmax(dim=1)
mine = slice(copy, None, copies)

model = nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32), nn.Linear(32, 10))
# Half of the hidden layer on each rank of "tp": what comes out of it is summed up by one all_reduce.
parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
fully_shard(model, mesh=mesh["dp"])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(1, 101):
    optimizer.zero_grad()
    loss = cross_entropy(model(rows[mine]), labels[mine])
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        mean = loss.detach()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        if dist.get_rank() == 0:
            print(f"step {step:3}  loss {mean:.4f}")

dist.destroy_process_group()
