"""Accelerate: a classifier, its metric gathered from all ranks, its state saved and loaded."""

import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, set_seed
from report import report
from torch.utils.data import DataLoader, TensorDataset

set_seed(0)
accelerator = Accelerator(cpu=True)
data = TensorDataset(torch.randn(70, 16), torch.randint(0, 4, (70,)))
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
model, optimizer, training, testing = accelerator.prepare(
    model, optimizer, DataLoader(data, 8, shuffle=True), DataLoader(data, 8)
)


def epoch() -> list[float]:
    losses = []
    for x, y in training:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(accelerator.reduce(loss.detach(), "mean").item())
    return losses


losses = epoch()
folder = broadcast_object_list([tempfile.mkdtemp() if accelerator.is_main_process else None])[0]
accelerator.save_state(folder)
again = epoch()
accelerator.load_state(folder)
with torch.no_grad():
    right = [accelerator.gather_for_metrics((model(x).argmax(1) == y).float()) for x, y in testing]
hits = torch.cat(right)
assert len(hits) == len(data), len(hits)
report(losses=losses + again, accuracy=hits.mean().item())
accelerator.end_training()
