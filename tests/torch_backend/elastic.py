"""A program for torchrun: data parallel training that goes on from its last checkpoint.

torchrun … tests/torch_backend/elastic.py FOLDER STEPS [VICTIM AT]: rank VICTIM is killed once, at that step. Every
rank writes the parameters that it comes to, and how often the ranks were started.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def rows(step: int, rank: int, size: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(step)
    return torch.randn(12, 8, generator=random).chunk(size)[rank]


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 8))


def train(made: torch.nn.Module, step: int, rank: int, size: int) -> None:
    x = rows(step, rank, size)
    made.zero_grad()
    mse_loss(made(x), x).backward()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter -= 0.1 * parameter.grad


def main(folder: Path, steps: int, victim: int = -1, at: int = -1) -> None:
    dist.init_process_group("ringtree")
    rank, size, attempt = dist.get_rank(), dist.get_world_size(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    wrapped = DistributedDataParallel(model())
    state = {"model": wrapped.module.state_dict(), "step": torch.zeros(1, dtype=torch.int64)}
    begin = 0
    if (folder / "saved" / ".metadata").exists():
        dcp.load(state, checkpoint_id=folder / "saved")
        begin = int(state["step"])
    for step in range(begin, steps):
        if (rank, step) == (victim, at) and not (folder / "killed").exists():
            (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        train(wrapped, step, rank, size)
        state["step"].fill_(step + 1)
        dcp.save(state, checkpoint_id=folder / "saved")
    torch.save((attempt, begin, wrapped.module.state_dict()), folder / f"rank{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
