"""Fully sharded training (FSDP2, ZeRO 3) over the backend "ringtree": each rank keeps a part of every layer.

torchrun --nproc-per-node 2 examples/fsdp2.py
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy

dist.init_process_group("ringtree")
rank, size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)  # the same rows and the same weights on every rank, of which each takes its own
rows, teacher = torch.randn(1024, 32), torch.randn(32, 10)
labels = (rows @ teacher).argmax(dim=1)
mine = slice(rank, None, size)

model = nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 10))
for layer in model:
    fully_shard(layer)  # gathered just before it is needed, and let go of after
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)  # its state is cut as the parameters are
for step in range(1, 101):
    optimizer.zero_grad()
    loss = cross_entropy(model(rows[mine]), labels[mine])
    loss.backward()  # gradients are reduce-scattered: each rank has those of its part
    optimizer.step()
    if step % 20 == 0:
        mean = loss.detach()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        if rank == 0:
            print(f"step {step:3}  loss {mean:.4f}")

whole = sum(p.numel() for p in model.parameters())
kept = sum(p.to_local().numel() for p in model.parameters())
if rank == 0:
    print(f"rank 0 keeps {kept:,} of {whole:,} parameters")
dist.destroy_process_group()
