"""wandb's quickstart, on a machine without an account."""

import json
from pathlib import Path

import wandb

run = wandb.init(project="quickstart", config={"lr": 0.1})
expected: dict[str, dict[str, float]] = {"loss": {}, "eval.accuracy": {}, "late": {}}
for epoch in range(5):
    wandb.log({"loss": 1 / (epoch + 1), "eval": {"accuracy": epoch / 5}, "note": "text"})
    expected["loss"][str(epoch)] = 1 / (epoch + 1)
    expected["eval.accuracy"][str(epoch)] = epoch / 5
wandb.log({"late": 3.0}, step=40)
wandb.log({"late": 4.0}, step=30)  # Dropped by wandb: its steps only grow.
expected["late"]["40"] = 3.0
assert run.settings.mode == "offline", run.settings.mode
wandb.finish()
Path("expected.json").write_text(json.dumps(expected))
