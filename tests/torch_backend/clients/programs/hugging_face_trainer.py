"""Hugging Face's Trainer: DDP, and an evaluation."""

import tempfile

from model import language_model, texts
from report import report
from transformers import Trainer, TrainingArguments, set_seed

set_seed(0)
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(),
    use_cpu=True,
    max_steps=12,
    per_device_train_batch_size=4,
    learning_rate=1e-2,
    logging_steps=1,
    save_strategy="no",
    report_to="none",
    disable_tqdm=True,
    seed=0,
)
trainer = Trainer(language_model(), arguments, train_dataset=texts(), eval_dataset=texts(10))
trainer.train()
losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
report(losses=losses, evaluated=trainer.evaluate()["eval_loss"])
