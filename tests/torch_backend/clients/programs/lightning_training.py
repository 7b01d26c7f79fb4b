"""Lightning: `lightning_training.py ddp`."""

import sys
import tempfile

import lightning
import torch
from model import language_model, texts
from report import report
from torch.utils.data import DataLoader


class Training(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = language_model()
        self.losses: list[float] = []

    def training_step(self, batch: dict[str, torch.Tensor], number: int) -> torch.Tensor:
        loss = self.model(**batch).loss
        self.log("loss", loss, sync_dist=True, on_step=False, on_epoch=True)
        self.losses.append(self.all_gather(loss.detach()).mean().item())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


lightning.seed_everything(0)
training = Training()
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=2,
    strategy=sys.argv[1],
    max_epochs=1,
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    default_root_dir=tempfile.mkdtemp(),
)
trainer.fit(training, DataLoader(texts(), 4))
report(losses=training.losses, last=trainer.callback_metrics["loss"].item())
