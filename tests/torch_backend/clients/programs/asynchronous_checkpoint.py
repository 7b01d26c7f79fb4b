"""torch.distributed.checkpoint: FSDP2's state saved while the next steps run, and loaded."""

import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from model import language_model, texts
from report import report
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
model = language_model()
for layer in model.model.layers:
    fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
rows = texts()


def step(number: int) -> float:
    mine = rows[8 * number + 4 * dist.get_rank() :][:4]
    loss = model(**{name: torch.stack([row[name] for row in mine]) for name in mine[0]}).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    return mean.item() / dist.get_world_size()


losses = [step(0), step(1)]
folder = [tempfile.mkdtemp()]
dist.broadcast_object_list(folder)
parts = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
saving = dcp.async_save(parts, checkpoint_id=folder[0], process_group=dist.new_group(backend="gloo"))
after = [step(2), step(3)]
saving.result()
dcp.load(parts, checkpoint_id=folder[0])
set_state_dict(model, optimizer, model_state_dict=parts["model"], optim_state_dict=parts["optimizer"])
again = [step(2), step(3)]
assert again == after, (after, again)
report(losses=losses + after)
dist.destroy_process_group()
