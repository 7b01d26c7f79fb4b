"""torchrun's restarts: a rank is killed once, and training goes on from what rank 0 has saved."""

import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
from report import report

dist.init_process_group("gloo")
kept = Path(os.environ["CLIENT_RESULT"]).with_suffix(".kept")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
state = torch.load(kept) if kept.exists() else {"losses": [], "model": model.state_dict()}
model.load_state_dict(state["model"])
losses = state["losses"]
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(len(losses), 12):
    x = torch.randn(16, 8, generator=torch.Generator().manual_seed(100 * step + dist.get_rank()))
    loss = (model(x).squeeze(1) - x.sum(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    losses.append(mean.item() / 2)
    if dist.get_rank() == 0 and step == 4:
        torch.save({"losses": losses, "model": model.state_dict()}, kept)
    dist.barrier()
    if step == 6 and dist.get_rank() == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
report(losses=losses, restarted=os.environ["TORCHELASTIC_RESTART_COUNT"] != "0")  # Gloo may take two
dist.destroy_process_group()
