"""Lightning, as its documentation shows, with a CSV logger that keeps what it gets."""

import csv
import json
import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

try:
    import lightning.pytorch as L
    from lightning.pytorch.loggers import CSVLogger
except ImportError:  # 1.x
    import pytorch_lightning as L
    from pytorch_lightning.loggers import CSVLogger


class Net(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(
        self, batch: tuple[torch.Tensor, torch.Tensor], batch_idx: int
    ) -> torch.Tensor:
        loss = torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], batch_idx: int) -> None:
        self.log("val_loss", torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


torch.manual_seed(1)
data = TensorDataset(torch.randn(80, 4), torch.randn(80, 1))
loggers = [CSVLogger("csv", name="run", version=0)]
if "own" in sys.argv:
    from muster.integrations.lightning import MusterLogger

    loggers.append(MusterLogger())
trainer = L.Trainer(
    max_epochs=2, log_every_n_steps=5, logger=loggers, accelerator="cpu",
    enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
trainer.fit(Net(), DataLoader(data, batch_size=8), DataLoader(data, batch_size=8))
expected: dict[str, dict[str, float]] = {}
with Path("csv/run/version_0/metrics.csv").open() as file:
    for row in csv.DictReader(file):
        for name in ("train_loss", "val_loss"):
            if row[name]:
                expected.setdefault(name, {})[row["step"]] = float(row[name])
Path("expected.json").write_text(json.dumps(expected))
