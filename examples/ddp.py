"""Data parallel training (DDP) over the backend "ringtree": each rank has the model, and a share of the rows.

torchrun --nproc-per-node 2 examples/ddp.py
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("ringtree")
rank, size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)  # the same rows on every rank, of which each takes its own
rows, teacher = torch.randn(1024, 32), torch.randn(32, 10)
labels = (rows @ teacher).argmax(dim=1)
mine = slice(rank, None, size)

model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 10)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(1, 101):
    optimizer.zero_grad()
    loss = cross_entropy(model(rows[mine]), labels[mine])
    loss.backward()  # the gradients are averaged over the ranks here, bucket by bucket
    optimizer.step()
    if step % 20 == 0:
        mean = loss.detach()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        if rank == 0:
            print(f"step {step:3}  loss {mean:.4f}")

dist.destroy_process_group()
