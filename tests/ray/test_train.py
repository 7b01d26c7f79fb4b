"""Ray Train's TorchTrainer on the backend "ringtree", on one node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = [pytest.mark.ray, pytest.mark.torch, pytest.mark.usefixtures("cluster")]


def trains(config: dict[str, str]) -> None:
    """A worker: three steps of a wrapped model on data of its own."""
    import torch
    import torch.distributed as dist
    from ray.train.torch import prepare_model

    import ringtree.torch_backend

    rank = dist.get_rank()
    torch.manual_seed(0)
    model = prepare_model(torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        loss = model(torch.full((2, 3), float(rank + step))).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = {
        "backend": dist.get_backend(),
        "moved": len(ringtree.torch_backend.communicator().counters()) > 0,
        "weights": [float(w) for p in model.parameters() for w in p.flatten()],
    }
    (Path(config["folder"]) / str(rank)).write_text(json.dumps(found))


def test_the_torch_trainer_takes_the_backend(tmp_path: Path) -> None:
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    (tmp_path / "ranks").mkdir()
    TorchTrainer(
        trains,
        train_loop_config={"folder": str(tmp_path / "ranks")},
        torch_config=TorchConfig(backend="ringtree"),
        scaling_config=ScalingConfig(num_workers=2, placement_strategy="STRICT_PACK"),
        run_config=RunConfig(storage_path=str(tmp_path / "store")),
    ).fit()
    first, second = (json.loads((tmp_path / "ranks" / str(rank)).read_text()) for rank in range(2))
    assert first["backend"] == "ringtree" and first["moved"]
    assert first["weights"] == second["weights"]
