"""torchtune's own recipe full_finetune_distributed (FSDP2) on a tiny Llama, as `tune run` starts it.

All recipes of torchtune 0.6.1 for several ranks read the statistics of a GPU's memory and empty its cache, and end with
an error where device=cpu, on any backend. Those two calls do nothing here; all else is torchtune's own."""

import os
import runpy
from pathlib import Path
from typing import Any

import torch
import torchtune
from model import texts
from omegaconf import OmegaConf
from report import write
from torchtune import config, training

SETTINGS = Path(__file__).with_suffix(".yaml")
FOLDER = Path(os.environ["CLIENT_RESULT"]).parent


class Tokenizer:
    """As much of one as a recipe asks for: the data are tokens already."""

    pad_id = 0


def dataset(tokenizer: Tokenizer) -> list[dict[str, list[int]]]:
    """Rows of tokens."""
    return [{"tokens": row["input_ids"].tolist(), "labels": row["labels"].tolist()} for row in texts()]


class Losses:
    """The recipe's log, on rank 0: kept, and reported at the end with the sum of what was saved."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def log_config(self, settings: Any) -> None:
        """Nothing to keep."""

    def log_dict(self, payload: dict[str, float], step: int) -> None:
        self.losses.append(float(payload["loss"]))

    def close(self) -> None:
        (saved,) = FOLDER.glob("trained/epoch_0/*.bin")
        write(losses=self.losses, saved=sum(float(x.double().sum()) for x in torch.load(saved).values()))


def write_weights() -> None:
    """The model's first weights, where the settings say. Each rank writes the same."""
    torch.manual_seed(0)
    model = config.instantiate(OmegaConf.load(SETTINGS).model)
    untrained = FOLDER / "untrained"
    untrained.mkdir(exist_ok=True)
    mine = untrained / f"{os.environ['RANK']}.pt"
    torch.save(model.state_dict(), mine)
    mine.rename(untrained / "weights.pt")


if __name__ == "__main__":
    write_weights()
    training.get_memory_stats = lambda device: {}
    training.log_memory_stats = lambda found: None
    training.cleanup_before_training = lambda: None
    recipe = Path(torchtune.__file__).parents[1] / "recipes" / "full_finetune_distributed.py"
    runpy.run_path(str(recipe))["recipe_main"]()
