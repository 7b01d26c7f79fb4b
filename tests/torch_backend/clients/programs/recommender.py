"""A recommender: tables of embeddings are divided over ranks, looked up by all-to-all, and trained."""

import torch
import torch.distributed as dist
from report import report
from torch.distributed.nn.functional import all_to_all_single

TABLES, ROWS, WIDTH, BATCH = 8, 1000, 16, 32

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
tables = [torch.nn.EmbeddingBag(ROWS, WIDTH, mode="sum") for _ in range(TABLES)][rank::ranks]
top = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(TABLES * WIDTH, 1))
optimizer = torch.optim.SGD([*top.parameters(), *(p for table in tables for p in table.parameters())], lr=0.1)
draw = torch.Generator().manual_seed(rank)
losses = []
for _ in range(12):
    ids = torch.randint(0, ROWS, (TABLES, BATCH, 4), generator=draw)  # of this rank's rows
    asked = torch.cat([ids[owner::ranks] for owner in range(ranks)])
    theirs = torch.empty_like(asked)
    dist.all_to_all_single(theirs, asked)
    theirs = theirs.view(ranks, len(tables), BATCH, 4)
    found = torch.stack([torch.stack([t(theirs[r, k]) for k, t in enumerate(tables)]) for r in range(ranks)])
    mine = all_to_all_single(torch.empty_like(found), found)
    mine = mine.transpose(0, 1).reshape(TABLES, BATCH, WIDTH).transpose(0, 1).reshape(BATCH, -1)
    target = (ids.sum(dim=(0, 2)) % 2).float()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(top(mine).squeeze(1), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    losses.append(mean.item() / ranks)
report(losses=losses)
dist.destroy_process_group()
