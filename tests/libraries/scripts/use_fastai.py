"""fastai's learner; `Recorder.values` is what it recorded."""

import json
from pathlib import Path

import torch
from fastai.callback.progress import ProgressCallback
from fastai.data.core import DataLoaders
from fastai.learner import Learner
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loaders = DataLoaders(DataLoader(data, batch_size=16), DataLoader(data, batch_size=16))
learner = Learner(loaders, torch.nn.Linear(4, 1), loss_func=torch.nn.functional.mse_loss)
learner.remove_cb(ProgressCallback)
learner.fit(3, lr=0.01)
recorded = list(learner.recorder.values)
learner.validate()  # No epoch of a training.
expected: dict[str, dict[str, float]] = {"train_loss": {}, "valid_loss": {}}
for epoch, (train, valid) in enumerate(recorded):
    expected["train_loss"][str(4 * (epoch + 1))] = train
    expected["valid_loss"][str(4 * (epoch + 1))] = valid
Path("expected.json").write_text(json.dumps(expected))
