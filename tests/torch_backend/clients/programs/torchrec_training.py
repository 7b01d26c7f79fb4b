"""TorchRec: tables of embeddings that its planner divides over the ranks, and a dense top by DDP."""

import torch
import torch.distributed as dist
import torchrec
from report import report
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward

TABLES, ROWS, WIDTH, BATCH, IDS = 4, 1000, 16, 32, 4
CPU = torch.device("cpu")
NAMES = [f"feature{table}" for table in range(TABLES)]


class Recommender(torch.nn.Module):
    """Pooled embeddings, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        tables = [
            torchrec.EmbeddingBagConfig(
                name=f"table{k}", embedding_dim=WIDTH, num_embeddings=ROWS, feature_names=[NAMES[k]]
            )
            for k in range(TABLES)
        ]
        self.tables = torchrec.EmbeddingBagCollection(device=torch.device("meta"), tables=tables)
        self.top = torch.nn.Linear(TABLES * WIDTH, 1)

    def forward(self, features: torchrec.KeyedJaggedTensor) -> torch.Tensor:
        return self.top(self.tables(features).values()).squeeze(1)


dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = Recommender()
apply_optimizer_in_backward(torch.optim.SGD, model.tables.parameters(), {"lr": 0.1})
planner = EmbeddingShardingPlanner(topology=Topology(world_size=ranks, compute_device="cpu"))
plan = planner.collective_plan(model, [EmbeddingBagCollectionSharder()], dist.group.WORLD)
model = DistributedModelParallel(model, device=CPU, plan=plan)
optimizer = torch.optim.SGD([p for name, p in model.named_parameters() if "top" in name], lr=0.1)
draw = torch.Generator().manual_seed(rank)
losses = []
for _ in range(12):
    ids = torch.randint(0, ROWS, (TABLES, BATCH, IDS), generator=draw)
    lengths = torch.full((TABLES * BATCH,), IDS)
    features = torchrec.KeyedJaggedTensor(NAMES, ids.flatten(), lengths=lengths)
    target = (ids.sum(dim=(0, 2)) % 2).float()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(model(features), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    losses.append(mean.item() / ranks)
report(losses=losses, sharding=sorted(str(how.sharding_type) for how in plan.plan["tables"].values()))
dist.destroy_process_group()
