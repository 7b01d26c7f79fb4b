"""DeepSpeed's ZeRO on CPUs: `deepspeed_zero.py 1|2|3 [BACKEND]`."""

import sys

import deepspeed
import torch
from model import language_model, texts
from report import report
from torch.utils.data import DataLoader, DistributedSampler

settings = {
    "train_micro_batch_size_per_gpu": 4,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}},
    "zero_optimization": {"stage": int(sys.argv[1])},
    "zero_force_ds_cpu_optimizer": False,
}
deepspeed.init_distributed(*sys.argv[2:])
model = language_model()
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)
rows = texts()
losses = []
for batch in DataLoader(rows, 4, sampler=DistributedSampler(rows, shuffle=False)):
    loss = engine(**batch).loss
    engine.backward(loss)
    engine.step()
    mean = loss.detach().clone()
    torch.distributed.all_reduce(mean)
    losses.append(mean.item() / 2)
report(losses=losses)
