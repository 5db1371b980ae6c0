"""The Trainer of Transformers with a small model of its own; `log_history` is what it recorded."""

import json
import sys
from pathlib import Path

import torch
from transformers import Trainer, TrainingArguments


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        out = self.layer(x)
        return {"loss": torch.nn.functional.mse_loss(out, labels), "logits": out}


torch.manual_seed(1)
data = [{"x": torch.randn(4), "labels": torch.randn(1)} for _ in range(64)]
arguments = TrainingArguments(
    output_dir="out", num_train_epochs=2, per_device_train_batch_size=8, logging_steps=3,
    eval_strategy="epoch", report_to=["tensorboard"], use_cpu=True, disable_tqdm=True,
)  # fmt: skip
callbacks = []
if "own" in sys.argv:
    from muster.integrations.transformers import MusterCallback

    callbacks.append(MusterCallback())
trainer = Trainer(
    model=Model(), args=arguments, train_dataset=data, eval_dataset=data, callbacks=callbacks
)
trainer.train()
expected: dict[str, dict[str, float]] = {}
for entry in trainer.state.log_history:
    for name, value in entry.items():
        if name not in ("step", "epoch"):
            expected.setdefault(name, {})[str(entry["step"])] = value
Path("expected.json").write_text(json.dumps(expected))
